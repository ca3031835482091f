"""The lineage graph: what came of what, from a commit to the releases that moved traffic."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from registry.contract.wire import Wire


class NodeKind(StrEnum):
    COMMIT = "commit"
    RUN = "run"
    DATASET = "dataset"
    VERSION = "version"
    BUILD = "build"
    ENGINE = "engine"
    RELEASE = "release"


class Relation(StrEnum):
    """What the earlier one was to the later one."""

    SOURCE = "source"
    TRAINING = "training"
    PARENT = "parent"
    BUILT = "built"
    CALIBRATION = "calibration"
    VALIDATION = "validation"
    MADE = "made"
    RELEASED = "released"


class Direction(StrEnum):
    ANCESTORS = "ancestors"
    DESCENDANTS = "descendants"
    BOTH = "both"


class LineageNode(Wire):
    """`ref` with its kind in front, such as `version:sentiment@7`, `dataset:calset@2`, `commit:4f1e…`,
    `engine:eng_…`, `release:prod/sentiment#3`. `name`: what a person calls it; `phase`: phase or stage;
    `depth`: edges from the root, negative towards ancestors.
    """

    ref: str
    kind: NodeKind
    name: str
    phase: str = ""
    at: datetime | None = None
    depth: int


class LineageEdge(Wire):
    """From the earlier to the later one, by their refs."""

    source: str
    target: str
    relation: Relation


class LineageGraph(Wire):
    """Nodes by distance from `root`, which is the first of them; `truncated`: there is more than was shown,
    raise depth or limit. With a choice of kinds only those nodes are listed, and the edges between them.
    """

    root: str
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    truncated: bool = Field(description="Depth or limit ended the walk before its end")
