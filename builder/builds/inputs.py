"""Inputs of a step: what its key is made of, how a `reproduce` line names it, and how it becomes files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from builder.store import Store
from registry.contract.datasets import Dataset
from registry.contract.identity import Digest
from registry.contract.versions import FileEntry, Version
from registry.contract.wire import sha256_of


class Input(Protocol):
    @property
    def digest(self) -> Digest: ...

    @property
    def where(self) -> str:
        """As `python -m builder.steps --input` takes it."""

    def place(self, store: Store, folder: Path) -> Path:
        """Its file or folder, on this machine now."""


@dataclass(frozen=True, slots=True)
class BlobInput:
    digest: Digest

    @property
    def where(self) -> str:
        return self.digest

    def place(self, store: Store, folder: Path) -> Path:
        return store.blob(self.digest)


@dataclass(frozen=True, slots=True)
class FilesInput:
    """Some files of a version, under their own paths."""

    version: Version
    files: tuple[FileEntry, ...]

    @classmethod
    def of_model(cls, version: Version) -> Self:
        """The model's own files; golden pairs and what the pipeline reads are inputs of their own."""
        others = (version.contract.golden, *version.contract.pipeline.files)
        return cls(version, tuple(file for file in version.files if file.path not in others))

    @classmethod
    def of_pipeline(cls, version: Version) -> Self:
        """The files that the version's pipeline reads."""
        named = version.contract.pipeline.files
        return cls(version, tuple(file for file in version.files if file.path in named))

    @property
    def digest(self) -> Digest:
        return sha256_of({"files": sorted((file.path, file.digest) for file in self.files)})

    @property
    def where(self) -> str:
        return f"version:{self.version.model}@{self.version.number}"

    def place(self, store: Store, folder: Path) -> Path:
        return store.lay_out(self.files, folder)


@dataclass(frozen=True, slots=True)
class DatasetInput:
    """Equal rows under another name are equal inputs."""

    dataset: Dataset

    @property
    def digest(self) -> Digest:
        shards = [shard.digest for shard in self.dataset.shards]
        return sha256_of({"form": self.dataset.form, "shards": shards, "index": self.dataset.index.digest})

    @property
    def where(self) -> str:
        return f"dataset:{self.dataset.name}@{self.dataset.version}"

    def place(self, store: Store, folder: Path) -> Path:
        return store.lay_out_dataset(self.dataset, folder)
