"""Data sets: versioned, content-addressed shards. Never an object per row.

Shards: `tar` holds one raw input per member (member name = row key); `npz` holds training-side tensors
(one array per input name, rows first, and `__key__`). `index` is a JSONL blob with one line per row:
{"key": …, "label": …, "split": …, "source": …}. A label is what the contract's metric is measured by: a
text, a number, a list of tags, or a list of {"label": …, "box": [x1, y1, x2, y2]} in pixels. `source`: where
the row came from. A golden file is JSONL: {"raw": base64, "inputs": {name: {dtype, shape,
data: base64}}, "outputs": {…}, "answer": {…}}, recorded by the training code.
"""

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, Field

from registry.contract.identity import Digest, Name
from registry.contract.versions import MAX_FILES, DatasetRef, FileEntry, Tags
from registry.contract.wire import LARGEST, Command, Wire

DatasetKind = Literal["calibration", "validation", "reference", "golden", "training"]
RowForm = Literal["raw", "tensors"]


class DatasetCreate(Command):
    """Every file must have been uploaded and verified before. `retain_until`: see `Dataset`."""

    name: Name
    kind: DatasetKind
    form: RowForm
    shards: tuple[FileEntry, ...] = Field(min_length=1, max_length=MAX_FILES)
    index: FileEntry
    rows: int = Field(ge=1, le=LARGEST)
    provenance: str = Field(default="", max_length=2048)
    tags: Tags = {}
    retain_until: AwareDatetime | None = None


class DatasetPatch(Command):
    """None: the data set stays."""

    retain_until: AwareDatetime | None


class Dataset(Wire):
    """Immutable but for `retain_until`: after it the collector deletes the data set, unless something refers
    to it; None: it stays. `revision` counts its changes."""

    name: Name
    version: int
    kind: DatasetKind
    form: RowForm
    shards: tuple[FileEntry, ...]
    index: FileEntry
    rows: int
    digest: Digest
    provenance: str
    tags: Tags
    retain_until: datetime | None = None
    revision: int = 1
    created_at: datetime
    created_by: str

    @property
    def ref(self) -> DatasetRef:
        return DatasetRef(name=self.name, version=self.version)
