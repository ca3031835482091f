"""Models, and their immutable numbered versions."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from registry.contract.identity import Digest, Name
from registry.contract.pipeline import PipelineSpec
from registry.contract.wire import LARGEST, Command, Whole, Wire, added

Tags = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=256)]]


# Of one version or data set.
MAX_FILES = 10_000


class ModelCreate(Command):
    name: Name
    task: str = Field(default="", max_length=64)
    description: str = Field(default="", max_length=4096)
    tags: Tags = {}


class ModelPatch(Command):
    task: str | None = Field(default=None, max_length=64)
    description: str | None = Field(default=None, max_length=4096)
    owner: str | None = Field(default=None, max_length=128)
    tags: Tags | None = None


class Model(Wire):
    name: Name
    task: str
    description: str
    owner: str
    tags: Tags
    latest_version: int | None
    revision: int
    created_at: datetime
    created_by: str


class Dtype(StrEnum):
    """Data types under their Open Inference Protocol names."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"


class TensorSpec(Wire):
    """A dimension is a size, or a name for one that may vary; the batch axis is the first one."""

    name: str = Field(min_length=1, max_length=256)
    dtype: Dtype
    shape: tuple[Annotated[int, Field(ge=0, le=LARGEST)] | Annotated[str, Field(min_length=1)], ...]


class Signature(Wire):
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class Observable(Wire):
    """What is watched: a field of the post-processed answer.

    `class`: a label (the reference's top 200 and "other" are counted); `score`: a confidence in [0, 1]
    (64 bins); `value`, `count`, `length`: a number, binned by `edges` (ascending), which come from the
    reference when they are not given.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    kind: Literal["class", "score", "value", "count", "length"]
    source: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()


class BatchRule(Wire):
    """Rows that one engine run may hold; 1 means the model can't be batched."""

    max_rows: int = Field(default=32, ge=1, le=4096)


class SourceOptions(Wire):
    """How a framework's own files are read, where they don't say it themselves.

    `file`: the one that is the model, among several. `entry`: `MODULE:CALLABLE` that makes a PyTorch module
    without arguments, for a state-dict that comes with its source. `part`: the submodule of a TorchScript
    file that is the model (`encoder.body`). `function`: the signature of a SavedModel.
    """

    file: str | None = Field(default=None, max_length=512)
    entry: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=256)
    part: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*$", max_length=256)
    function: str = Field(default="serving_default", min_length=1, max_length=256)


MetricName = Literal["accuracy", "exact_match", "f1", "ap50", "mae", "rmse"]
"""`f1` and `ap50` of boxes are at an overlap of .5; `mae` and `rmse` are better when they are lower."""


class VersionContract(Wire):
    """What a version promises to callers and watchers. Part of the sealed version.

    `golden` names a file of the version's manifest (`golden.jsonl`, see `datasets`); without it the
    version is *unproven*. `metric` is what validation judges its answers by; None: the first one of its
    post-processing (labels: accuracy; texts: exact_match; tags and boxes: f1; numbers: mae).
    """

    signature: Signature
    pipeline: PipelineSpec = PipelineSpec()
    observables: tuple[Observable, ...] = ()
    batch: BatchRule = BatchRule()
    golden: str | None = None
    source: SourceOptions = added(SourceOptions())
    metric: MetricName | None = added(None)


class FileEntry(Wire):
    """`path` is relative, with forward slashes, without `..`; checked by the registry."""

    path: str = Field(min_length=1, max_length=512)
    digest: Digest
    size: int = Field(ge=0, le=LARGEST)


class Framework(StrEnum):
    """`pyfunc`: a Python function of MLflow, which is kept and downloaded but never built."""

    ONNX = "onnx"
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    LIGHTGBM = "lightgbm"
    SKLEARN = "sklearn"
    XGBOOST = "xgboost"
    PYFUNC = "pyfunc"


class DatasetRef(Wire):
    """A data set by name and version, `valset@2`."""

    name: Name
    version: int = Field(ge=1, lt=1_000_000_000)


class Lineage(Wire):
    repository: str | None = Field(default=None, max_length=512)
    commit: str | None = Field(default=None, max_length=64)
    training_run: str | None = Field(default=None, max_length=256)
    training_data: DatasetRef | None = None
    parent_version: int | None = Field(default=None, ge=1, lt=1_000_000_000)
    parameters: dict[str, str] = {}


class VersionStage(StrEnum):
    DRAFT = "draft"
    VERIFYING = "verifying"
    READY = "ready"
    REJECTED = "rejected"
    ARCHIVED = "archived"
    QUARANTINED = "quarantined"


class VersionCreate(Command):
    """Reserves the next number. Files are declared here and uploaded by digest afterwards."""

    framework: Framework
    files: tuple[FileEntry, ...] = Field(min_length=1, max_length=MAX_FILES)
    contract: VersionContract
    lineage: Lineage = Lineage()
    description: str = Field(default="", max_length=4096)
    tags: Tags = {}


class Version(Wire):
    """`warnings`: where a version that is quarantined or archived is still in use, as of now."""

    model: Name
    number: int
    stage: VersionStage
    stage_reason: str
    stage_since: datetime
    framework: Framework
    files: tuple[FileEntry, ...]
    digest: Digest
    contract: VersionContract
    proven: bool
    lineage: Lineage
    description: str
    tags: Tags
    aliases: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    revision: int
    created_at: datetime
    created_by: str


class StageChange(Command):
    """Body of archive, restore and quarantine."""

    reason: str = Field(min_length=1, max_length=1024)
    expected_revision: Whole | None = None


class Metric(Wire):
    """One number per (version, data set, split, name); append-only, the newest one counts."""

    dataset: DatasetRef
    split: str = Field(default="all", max_length=64)
    name: str = Field(pattern=r"^[a-z][a-z0-9_.]{0,63}$")
    value: float = Field(allow_inf_nan=False)
    n: int = Field(ge=1, lt=1 << 31)
    higher_is_better: bool = True
    low: float | None = Field(default=None, allow_inf_nan=False)
    high: float | None = Field(default=None, allow_inf_nan=False)
    measured_by: Literal["training", "pipeline"] = "training"
    engine: Digest | None = None
    recorded_at: datetime | None = None
    recorded_by: str | None = None


class MetricsAppend(Command):
    metrics: tuple[Metric, ...] = Field(min_length=1, max_length=1000)


class AliasSet(Command):
    """`expected_version`: the version that the alias must name until now, 0 for none; None: whichever."""

    version: int = Field(ge=1, lt=1_000_000_000)
    expected_version: int | None = Field(default=None, ge=0, lt=1_000_000_000)
    reason: str = Field(default="", max_length=1024)


class Alias(Wire):
    name: Name
    model: Name
    version: int
    set_at: datetime
    set_by: str


class AliasChange(Wire):
    """One entry of an alias's history. None: there was no alias before, or there is none after."""

    alias: Name
    model: Name
    before: int | None
    after: int | None
    at: datetime
    by: str
    reason: str
    via: str
