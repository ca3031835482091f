"""Brings registered models over from an MLflow tracking server, as often as one likes.

A version knows its origin (`mlflow.origin` in its lineage), so a second run brings only what is new, and what
is here stays as it is. One is made when all of its files are here and verified: an interrupted run leaves
nothing half.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from registry.client import ApiError, datasets, mlflow, models, transfer, versions
from registry.contract.identity import NAME_PATTERN, suggested_name
from registry.contract.mlflow import ORIGIN, MlflowVersion
from registry.contract.versions import (
    DatasetRef,
    FileEntry,
    Metric,
    MetricsAppend,
    ModelCreate,
    Tags,
    Version,
)
from registry.contract.wire import Wire
from slipway.client import Client
from slipway.tracking import Pair, RemoteModel, RemoteVersion, RunData, TrackingServer, Unreadable

Progress = Callable[[str, int, int], None]

TELLING = ("MLmodel", "slipway.json")
LONGEST_TEXT = 256 * 1024
LONGEST_DESCRIPTION = 4096
LONGEST_VALUE = 1024
METRIC_NAME = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_TAGS: TypeAdapter[Tags] = TypeAdapter(Tags)


class State(StrEnum):
    IMPORTED = "imported"
    PLANNED = "would import"
    PRESENT = "here already"
    SKIPPED = "skipped"
    ALIAS = "alias set"


class Imported(Wire):
    """What became of one version (or alias) of the tracking server. `notes`: what of it was left behind."""

    origin: str
    target: str
    state: State
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """`only`: names of models, empty for all; `renames`: their name here; `metrics_on`: the data set on which
    the runs' metrics were measured, with which they are recorded as metrics."""

    only: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)
    metrics_on: DatasetRef | None = None
    dry_run: bool = False


def bring_over(
    client: Client, server: TrackingServer, wish: Wish, progress: Progress | None = None
) -> Iterator[Imported]:
    """Model by model, oldest version first. Raises TrackingError, ApiError, ValueError (no such model)."""
    missing = set(wish.only)
    for model in server.models():
        if wish.only and model.name not in wish.only:
            continue
        missing.discard(model.name)
        yield from _Model(client, server, wish, model, progress).bring()
    if missing:
        raise ValueError(f"{server.url} has no model {', '.join(sorted(missing))}")


class _Model:
    def __init__(
        self,
        client: Client,
        server: TrackingServer,
        wish: Wish,
        model: RemoteModel,
        progress: Progress | None,
    ) -> None:
        self._client = client
        self._server = server
        self._wish = wish
        self._model = model
        self._progress = progress
        self._target = wish.renames.get(model.name, model.name)

    def bring(self) -> Iterator[Imported]:
        if not re.match(NAME_PATTERN, self._target):
            better = suggested_name(self._target) or "NAME"
            why = f"no name for a model here; give it one: --rename '{self._model.name}={better}'"
            yield Imported(origin=self._model.name, target="-", state=State.SKIPPED, notes=(why,))
            return
        here = self._here()
        if here is None and not self._wish.dry_run:
            self._create()
        numbers = dict(here or {})
        for version in self._server.versions(self._model.name):
            made = self._version(version, numbers)
            yield made
        yield from self._aliases(numbers)

    def _origin(self, version: RemoteVersion) -> str:
        return f"{self._server.url}/{version.name}/{version.version}"

    def _here(self) -> dict[str, int] | None:
        """Origin → number of what came over before; None: there is no such model here."""
        found: dict[str, int] = {}
        token: str | None = None
        while True:
            try:
                page = self._client.call(versions.page(self._target, token, limit=1000))
            except ApiError as error:
                if error.status == 404:
                    return None
                raise
            for version in page.items:
                origin = version.lineage.parameters.get(ORIGIN)
                if origin is not None:
                    found[origin] = version.number
            token = page.next_page_token
            if token is None:
                return found

    def _create(self) -> None:
        tags, _ = _fitting(self._model.tags)
        self._client.call(
            models.create(
                ModelCreate(
                    name=self._target,
                    description=self._model.description[:LONGEST_DESCRIPTION],
                    tags=tags,
                )
            )
        )

    def _version(self, version: RemoteVersion, numbers: dict[str, int]) -> Imported:
        """`numbers` gets the new one."""
        origin = self._origin(version)
        if origin in numbers:
            return Imported(origin=origin, target=f"{self._target}@{numbers[origin]}", state=State.PRESENT)
        if version.status != "READY":
            return self._skipped(version, f"it is {version.status}")
        try:
            folder = self._server.folder(version)
        except Unreadable as error:
            return self._skipped(version, str(error))
        files = self._server.files(folder)
        if not files:
            return self._skipped(version, "it has no files")
        if self._wish.dry_run:
            note = f"{len(files)} files, {sum(files.values())} bytes"
            return Imported(origin=origin, target=self._target, state=State.PLANNED, notes=(note,))
        made, notes = self._carry(version, folder, files)
        numbers[origin] = made.number
        return Imported(
            origin=origin, target=f"{self._target}@{made.number}", state=State.IMPORTED, notes=tuple(notes)
        )

    def _skipped(self, version: RemoteVersion, why: str) -> Imported:
        return Imported(origin=self._origin(version), target=self._target, state=State.SKIPPED, notes=(why,))

    def _carry(
        self, version: RemoteVersion, folder: str, files: Mapping[str, int]
    ) -> tuple[Version, list[str]]:
        entries: list[FileEntry] = []
        texts: dict[str, str] = {}
        with tempfile.TemporaryDirectory(prefix="slipway-import-") as name:
            # Numbered, for what a server calls its files is no path to write to.
            for index, path in enumerate(sorted(files)):
                copy = Path(name) / str(index)
                self._server.fetch(folder, path, copy)
                entries.append(self._upload(version, path, copy))
                if path.rpartition("/")[2] in TELLING and entries[-1].size <= LONGEST_TEXT:
                    with contextlib.suppress(UnicodeDecodeError):
                        texts[path] = copy.read_bytes().decode()
                copy.unlink()
        tags, notes = _fitting(version.tags)
        run = self._server.run(version.run_id) if version.run_id else RunData()
        if run is None:
            run = RunData()
            notes.append(f"its run {version.run_id} is gone")
        made = self._client.call(
            mlflow.bring(
                MlflowVersion(
                    model=self._target,
                    origin=self._origin(version),
                    files=tuple(entries),
                    texts=texts,
                    source=version.source,
                    run_id=version.run_id or None,
                    run_link=version.run_link,
                    description=version.description[:LONGEST_DESCRIPTION],
                    tags=tags,
                    parameters=_parameters(run),
                )
            )
        )
        if made.stage_reason:
            notes.append(made.stage_reason)
        return made, notes + self._metrics(made, run)

    def _upload(self, version: RemoteVersion, path: str, copy: Path) -> FileEntry:
        told = self._progress
        shown = f"{version.name}/{version.version}/{path}"
        digest = transfer.upload(
            self._client.call,
            copy,
            progress=None if told is None else lambda done, total: told(shown, done, total),
        )
        return FileEntry(path=path, digest=digest, size=copy.stat().st_size)

    def _metrics(self, made: Version, run: RunData) -> list[str]:
        """Records them where it is known on which data they were measured; gives what was left behind."""
        if self._wish.metrics_on is None or not run.metrics:
            return []
        ref = self._wish.metrics_on
        rows = self._client.call(datasets.get(ref.name, ref.version)).rows
        kept: list[Metric] = []
        notes: list[str] = []
        for metric in run.metrics:
            try:
                kept.append(
                    Metric.model_validate(
                        {"dataset": ref, "name": metric.key, "value": metric.value, "n": rows}
                    )
                )
            except ValidationError:
                notes.append(f"the metric {metric.key!r} = {metric.value} is only in its lineage")
        if kept:
            body = MetricsAppend(metrics=tuple(kept))
            self._client.call(versions.append_metrics(made.model, made.number, body))
        return notes

    def _aliases(self, numbers: Mapping[str, int]) -> Iterator[Imported]:
        """An alias that is here already is left alone: someone may have moved it since."""
        if self._wish.dry_run or not self._model.aliases:
            return
        known = {alias.name for alias in self._client.call(models.aliases(self._target)).items}
        for alias in self._model.aliases:
            origin = f"{self._server.url}/{self._model.name}/{alias.version}"
            number = numbers.get(origin)
            if alias.alias in known or number is None:
                continue
            target = f"{self._target}@{number}"
            if not re.match(NAME_PATTERN, alias.alias):
                better = suggested_name(alias.alias) or "NAME"
                why = f"{alias.alias!r} is no name here: slipway alias set {self._target} {better} {number}"
                yield Imported(origin=origin, target=target, state=State.SKIPPED, notes=(why,))
                continue
            self._client.call(models.set_alias(self._target, alias.alias, number))
            yield Imported(origin=origin, target=target, state=State.ALIAS, notes=(alias.alias,))


def _fitting(tags: tuple[Pair, ...]) -> tuple[Tags, list[str]]:
    """Those that can be kept, and a sentence for each of the others."""
    kept: Tags = {}
    notes: list[str] = []
    for tag in tags:
        try:
            kept |= _TAGS.validate_python({tag.key: tag.value})
        except ValidationError:
            notes.append(
                f"the tag {tag.key[:64]!r} is too long ({len(tag.value)} characters) and stays behind"
            )
    return kept, notes


def _parameters(run: RunData) -> dict[str, str]:
    """What the run recorded, as lineage: parameters and, since MLflow doesn't say on which data, metrics."""
    return {
        **{f"param.{each.key}": each.value[:LONGEST_VALUE] for each in run.params},
        **{f"metric.{each.key}": str(each.value) for each in run.metrics},
    }
