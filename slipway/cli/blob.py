"""slipway blob …, upload, download, gc: bytes, and what becomes of them."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from registry.client import folders, transfer, uploads
from registry.contract.retention import Garbage
from registry.contract.uploads import Blob
from slipway.cli.output import Column, Form, Output, bars, gone, hint, one, rows
from slipway.cli.session import client

app = typer.Typer(help="Verified bytes by their digest.", no_args_is_help=True)


class Fetched(BaseModel):
    """Where a download lies now."""

    what: str
    path: Path


COLUMNS: list[Column[Blob]] = [
    ("DIGEST", lambda b: b.digest),
    ("BYTES", lambda b: b.size),
    ("VERIFIED", lambda b: f"{b.verified_at:%Y-%m-%d %H:%M}Z"),
]
GARBAGE: list[Column[Garbage]] = [
    ("KIND", lambda g: g.kind),
    ("NAME", lambda g: g.name),
    ("BYTES", lambda g: g.size),
    ("SINCE", lambda g: f"{g.since:%Y-%m-%d %H:%M}Z"),
]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@app.command()
def get(digest: str, output: Output = Form.TABLE) -> None:
    """Show a blob."""
    one(client().call(uploads.blob(digest)), COLUMNS, output)


@app.command()
def delete(digest: str, output: Output = Form.TABLE) -> None:
    """Delete bytes that nothing refers to, without waiting for the collector."""
    client().call(uploads.delete_blob(digest))
    gone("blob", digest, output)


def upload(
    sources: Annotated[list[Path], typer.Argument(help="Files, or folders of files")],
    output: Output = Form.TABLE,
) -> None:
    """Upload files and wait until they are verified. An interrupted upload goes on where it was."""
    found = []
    with bars() as progress:
        for source in sources:
            for name, path in folders.files_of(source).items():
                digest = transfer.upload(client().call, path, progress=partial(progress, name))
                found.append(client().call(uploads.blob(digest)))
    rows(found, COLUMNS, output)


def download(
    what: Annotated[str, typer.Argument(help="sha256-…, MODEL@NUMBER or dataset:NAME@VERSION")],
    dest: Annotated[Path, typer.Argument(help="A file for a digest, a folder for the others")],
    output: Output = Form.TABLE,
) -> None:
    """Fetch bytes and verify them. An interrupted download goes on where it was."""
    with bars("fetched") as progress:
        path = client().download(what, dest, progress=progress)
    if output is Form.TABLE:
        print(path)
    else:
        one(Fetched(what=what, path=path), [], output)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go")] = False,
    grace: Annotated[
        str | None, typer.Option(help="Leave alone what is younger: 12h, 7d; at least 1h")
    ] = None,
    output: Output = Form.TABLE,
) -> None:
    """Delete what nothing refers to: bytes, data sets past their retention, leavings of uploads."""
    found: list[Garbage] = []
    grace_s = None if grace is None else seconds(grace)
    for swept in client().collect(dry_run=dry_run, grace_s=grace_s):
        found += swept.garbage
        for kept in swept.kept:
            hint(f"data set {kept.name} is past its retention and stays: {'; '.join(kept.referrers)}")
    rows(found, GARBAGE, output)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(item.kind for item in found).items())
    size = sum(item.size or 0 for item in found)
    hint(f"{'would delete' if dry_run else 'deleted'}: {kinds or 'nothing'} ({size} bytes)")


def seconds(text: str) -> int:
    """Of `90s`, `15m`, `12h`, `7d`. Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS:
        raise ValueError(f"{text!r} is no span of time; write for example 12h or 7d")
    return int(number) * UNITS[unit]


def install(top: typer.Typer) -> None:
    for command in (upload, download, gc):
        top.command()(command)
