"""MLflow's requests and answers, as far as a registry needs them. Fields that are not known are ignored."""

from registry.contract.wire import Wire


class Tag(Wire):
    key: str
    value: str = ""


class NamedAlias(Wire):
    alias: str
    version: str


class ModelVersion(Wire):
    """Times in milliseconds. `current_stage` is always None: there are no stages, aliases name versions."""

    name: str
    version: str
    creation_timestamp: int
    last_updated_timestamp: int
    user_id: str
    current_stage: str = "None"
    description: str = ""
    source: str
    run_id: str | None = None
    run_link: str = ""
    model_id: str | None = None
    status: str
    status_message: str | None = None
    tags: tuple[Tag, ...] = ()
    aliases: tuple[str, ...] = ()


class RegisteredModel(Wire):
    name: str
    creation_timestamp: int
    last_updated_timestamp: int
    user_id: str
    description: str = ""
    latest_versions: tuple[ModelVersion, ...] = ()
    tags: tuple[Tag, ...] = ()
    aliases: tuple[NamedAlias, ...] = ()


class ModelAnswer(Wire):
    registered_model: RegisteredModel


class ModelsAnswer(Wire):
    registered_models: tuple[RegisteredModel, ...]
    next_page_token: str | None = None


class VersionAnswer(Wire):
    model_version: ModelVersion


class VersionsAnswer(Wire):
    model_versions: tuple[ModelVersion, ...]
    next_page_token: str | None = None


class UriAnswer(Wire):
    artifact_uri: str


class Artifact(Wire):
    """`path` is relative to what was listed."""

    path: str
    is_dir: bool
    file_size: int | None = None


class ArtifactsAnswer(Wire):
    files: tuple[Artifact, ...]


class Nothing(Wire):
    """The answer `{}`."""


class ModelCreation(Wire):
    name: str
    tags: tuple[Tag, ...] = ()
    description: str | None = None


class ModelNamed(Wire):
    name: str


class ModelRename(Wire):
    name: str
    new_name: str | None = None


class ModelUpdate(Wire):
    name: str
    description: str | None = None


class LatestVersions(Wire):
    name: str
    stages: tuple[str, ...] = ()


class ModelTag(Wire):
    name: str
    key: str
    value: str = ""


class AliasNamed(Wire):
    name: str
    alias: str


class AliasSetting(Wire):
    name: str
    alias: str
    version: str


class VersionCreation(Wire):
    name: str
    source: str
    run_id: str | None = None
    run_link: str | None = None
    model_id: str | None = None
    description: str | None = None
    tags: tuple[Tag, ...] = ()


class VersionNamed(Wire):
    name: str
    version: str


class VersionUpdate(Wire):
    name: str
    version: str
    description: str | None = None


class VersionTag(Wire):
    name: str
    version: str
    key: str
    value: str = ""


class StageTransition(Wire):
    name: str
    version: str
    stage: str = ""
