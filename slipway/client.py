"""The Python client for people: whole procedures over the registry's calls.

client = slipway.Client()
version = client.register("sentiment", {"model.onnx": Path("model.onnx")}, contract)
client.build("sentiment@1", wait=600)
client.promote("sentiment@1", "prod/sentiment")
receipt = client.rollback("prod/sentiment", wait=60)
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from registry.client import (
    ApiError,
    builds,
    datasets,
    folders,
    models,
    releases,
    retention,
    transfer,
    versions,
)
from registry.client import Client as Transport
from registry.client.call import Call
from registry.contract.builds import Build, BuildCreate, BuildPhase
from registry.contract.datasets import Dataset, DatasetCreate, DatasetKind, RowForm
from registry.contract.deployments import PlanStep
from registry.contract.identity import DIGEST_PATTERN, parse_version
from registry.contract.recipes import Recipe
from registry.contract.releases import Promote, Receipt, Release, ReleasePhase, RollBack, Transition
from registry.contract.retention import Collected, GarbageCollect
from registry.contract.versions import (
    FileEntry,
    Framework,
    Lineage,
    ModelCreate,
    Version,
    VersionContract,
    VersionCreate,
    VersionStage,
)
from slipway.credentials import find

T = TypeVar("T")
Progress = Callable[[str, int, int], None]

FIRST_POLL_S = 0.02
POLL_S = 0.25
LONGEST_WAIT_OF_ONE_CALL_S = 30.0
RELEASE_ENDS = frozenset(
    {
        ReleasePhase.COMPLETED,
        ReleasePhase.ROLLED_BACK,
        ReleasePhase.ABORTED,
        ReleasePhase.SUPERSEDED,
        ReleasePhase.FAILED,
    }
)
BUILD_ENDS = frozenset({BuildPhase.COMPLETED, BuildPhase.FAILED, BuildPhase.CANCELLED})


class WaitTimedOut(Exception):
    """The time is over; the work goes on. `subject` is its id."""

    def __init__(self, subject: str, state: str) -> None:
        super().__init__(f"{subject} is still {state}; it goes on, look again later")
        self.subject = subject


class Client:
    """Address and token come from the environment where they are not given. Usable as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`tell` is given a sentence when an upload or a download waits for the registry to come back."""
        found = find()
        self.call = Transport(url or found.url, found.token if token is None else token, tell=tell)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call.close()

    def register(
        self,
        model: str,
        files: Path | Mapping[str, Path],
        contract: VersionContract,
        *,
        framework: Framework = Framework.ONNX,
        lineage: Lineage | None = None,
        description: str = "",
        tags: dict[str, str] | None = None,
        progress: Progress | None = None,
        wait: float = 3600,
    ) -> Version:
        """Creates the model where it is missing, uploads, seals, and waits until the version is ready, or
        rejected: then its `stage_reason` names the file.

        `files`: a file, a folder, or path in the version → local file. `progress` gets name, bytes done,
        bytes in all. What an interrupted call has sent is not sent again. Raises transfer.TransferFailed,
        ApiError, WaitTimedOut; FileNotFoundError and ValueError for a folder that can't be a version.
        """
        sources = folders.files_of(files) if isinstance(files, Path) else files
        entries = folders.entries_of(sources)
        made = self._reserve(
            model,
            VersionCreate(
                framework=framework,
                files=entries,
                contract=contract,
                lineage=lineage or Lineage(),
                description=description,
                tags=tags or {},
            ),
        )
        with self.call.riding_out():
            folders.upload_all(self.call, sources, entries, progress)
            sealed = self.call(versions.seal(model, made.number))
            if sealed.stage is not VersionStage.VERIFYING:
                return sealed
            return self._until(
                versions.get(model, made.number),
                lambda version: version.stage is not VersionStage.VERIFYING,
                lambda version: (f"{model}@{version.number}", version.stage),
                wait,
            )

    def _reserve(self, model: str, body: VersionCreate) -> Version:
        """Mostly the model is there; looking first would be a call more."""
        try:
            return self.call(versions.create(model, body))
        except ApiError as error:
            if error.status != 404:
                raise
        self.ensure_model(model)
        return self.call(versions.create(model, body))

    def ensure_model(self, model: str) -> None:
        try:
            self.call(models.get(model))
        except ApiError as error:
            if error.status != 404:
                raise
            self.call(models.create(ModelCreate(name=model)))

    def dataset(
        self,
        name: str,
        kind: DatasetKind,
        form: RowForm,
        shards: Mapping[str, Path],
        index: Path,
        rows: int,
        *,
        provenance: str = "",
        retain_until: datetime | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Uploads the shards and the index, and records the data set's next version."""

        def sent(path: str, source: Path) -> FileEntry:
            size = source.stat().st_size
            entry = FileEntry(path=path, digest=transfer.digest_of(source), size=size)
            told = None if progress is None else partial(progress, path)
            transfer.upload(self.call, source, digest=entry.digest, progress=told)
            return entry

        return self.call(
            datasets.create(
                DatasetCreate(
                    name=name,
                    kind=kind,
                    form=form,
                    shards=tuple(sent(path, source) for path, source in shards.items()),
                    index=sent(index.name, index),
                    rows=rows,
                    provenance=provenance,
                    retain_until=retain_until,
                )
            )
        )

    def build(self, version: str, recipe: Recipe | None = None, *, wait: float | None = None) -> Build:
        """`wait` in seconds: answers when the build has ended."""
        made = self.call(builds.create(BuildCreate(version=version, recipe=recipe)))
        return made if wait is None else self.wait_build(made.id, wait)

    def wait_build(self, build: str, wait: float, seen: Callable[[Build], None] | None = None) -> Build:
        """Raises WaitTimedOut. `seen` is told of every look."""
        return self._until(
            builds.get(build),
            lambda found: found.phase in BUILD_ENDS,
            lambda found: (found.id, found.phase),
            wait,
            seen,
        )

    def promote(
        self,
        version: str,
        to: str,
        *,
        plan: tuple[PlanStep, ...] | None = None,
        reason: str = "",
        supersede: bool = False,
    ) -> Release:
        """Puts a version into service by the deployment's policy, or by `plan`."""
        body = Promote(version=version, plan=plan, reason=reason, supersede=supersede)
        return self.call(releases.promote(to, body))

    def advance(self, ref: str, number: int, reason: str = "") -> Release:
        """The next step, by command."""
        return self.call(releases.advance(ref, number, Transition(reason=reason)))

    def wait_release(
        self,
        ref: str,
        number: int,
        until: Callable[[Release], bool],
        wait: float,
        seen: Callable[[Release], None] | None = None,
    ) -> Release:
        """Until `until` holds or the release has ended. Raises WaitTimedOut."""
        return self._until(
            releases.get(ref, number),
            lambda release: until(release) or release.phase in RELEASE_ENDS,
            lambda release: (f"{ref} release {number}", release.phase),
            wait,
            seen,
        )

    def rollback(
        self,
        ref: str,
        to: str | None = None,
        *,
        reason: str = "",
        wait: float | None = None,
        allow_unfit: bool = False,
    ) -> Receipt:
        """Back to the last good version. `wait` in seconds: answers when every node confirmed, or then.

        `allow_unfit`: also to a version that is quarantined or archived.
        """
        deadline = time.monotonic() + (wait or 0)
        first = min(wait or 0, LONGEST_WAIT_OF_ONE_CALL_S)
        asked = RollBack(to=to, reason=reason, wait=first, allow_unfit=allow_unfit)
        receipt = self.call(releases.roll_back(ref, asked))
        while not receipt.final and (left := deadline - time.monotonic()) > 0:
            pressed = receipt.already
            receipt = self.call(releases.receipt(receipt.id, min(left, LONGEST_WAIT_OF_ONE_CALL_S)))
            receipt = receipt.model_copy(update={"already": pressed})
        return receipt

    def download(self, what: str, dest: Path, *, progress: Progress | None = None) -> Path:
        """Fetches and verifies; what an interrupted call has fetched is used.

        `what`: a digest (to the file `dest`, or into that folder), `MODEL@NUMBER` or `dataset:NAME@VERSION`
        (their files, into the folder `dest`). Raises transfer.TransferFailed, ApiError.
        """
        if re.match(DIGEST_PATTERN, what):
            told = None if progress is None else partial(progress, what)
            return transfer.download(self.call, what, dest / what if dest.is_dir() else dest, progress=told)
        kind, colon, name = what.rpartition(":")
        ref = parse_version(name)
        if kind == "dataset":
            found = self.call(datasets.get(ref.model, ref.number))
            return folders.download_all(self.call, (*found.shards, found.index), dest, progress)
        if colon:
            raise ValueError(f"{what!r} is nothing to download; write MODEL@NUMBER or dataset:NAME@VERSION")
        version = self.call(versions.get(ref.model, ref.number))
        return folders.download_all(self.call, version.files, dest, progress)

    def collect(self, *, dry_run: bool, grace_s: int | None = None) -> Iterator[Collected]:
        """Deletes what nothing refers to, pass by pass."""
        cursor: str | None = None
        while True:
            body = GarbageCollect(dry_run=dry_run, grace_s=grace_s, cursor=cursor)
            found = self.call(retention.collect(body))
            yield found
            cursor = found.cursor
            if cursor is None:
                return

    def _until(
        self,
        call: Call[T],
        done: Callable[[T], bool],
        state: Callable[[T], tuple[str, str]],
        wait: float,
        seen: Callable[[T], None] | None = None,
    ) -> T:
        deadline = time.monotonic() + wait
        pause = FIRST_POLL_S
        while True:
            found = self.call(call)
            if seen is not None:
                seen(found)
            if done(found):
                return found
            if time.monotonic() >= deadline:
                raise WaitTimedOut(*state(found))
            time.sleep(pause)
            pause = min(POLL_S, pause * 1.5)
