"""A version that is brought over from an MLflow tracking server."""

from pydantic import Field

from registry.contract.identity import Name
from registry.contract.versions import FileEntry, Tags
from registry.contract.wire import Command

# The parameter of a version's lineage that holds its origin.
ORIGIN = "mlflow.origin"


class MlflowVersion(Command):
    """The files are uploaded already. `texts`: the contents of `MLmodel` and `slipway.json`, where there are
    such files; they must be those of the manifest's digests. `origin` names it at its tracking server."""

    model: Name
    origin: str = Field(min_length=1, max_length=512)
    files: tuple[FileEntry, ...] = Field(min_length=1, max_length=10_000)
    texts: dict[str, str] = {}
    source: str = Field(default="", max_length=2048)
    run_id: str | None = Field(default=None, max_length=256)
    run_link: str = Field(default="", max_length=2048)
    description: str = Field(default="", max_length=4096)
    tags: Tags = {}
    parameters: dict[str, str] = {}
