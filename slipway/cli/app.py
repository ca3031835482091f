"""Puts the commands together, and turns every failure into a sentence and an exit code."""

import os
import sys

import typer
from pydantic import ValidationError

from registry.client import ApiError, Unreachable
from registry.client.transfer import TransferFailed
from registry.client.variables import strangers
from registry.contract.problems import ProblemType
from slipway.backup import BackupError
from slipway.children import ChildFailed
from slipway.cli import (
    alias,
    audit,
    backup,
    blob,
    build,
    capacity,
    dataset,
    deployment,
    drift,
    event,
    imports,
    lineage,
    model,
    node,
    release,
    token,
    top,
    version,
    webhook,
)
from slipway.cli.endings import (
    CONFLICT,
    DENIED,
    DETACHED,
    DONE,
    GATE,
    READER_GONE,
    SERVER,
    TIMED_OUT,
    USAGE,
    Commands,
    Detached,
    ReaderGone,
    flushed,
    opened,
)
from slipway.cli.output import hint
from slipway.client import WaitTimedOut
from slipway.stack import StackError
from slipway.tracking import TrackingError

app = typer.Typer(
    name="slipway",
    cls=Commands,
    help="Register, build, release, watch and roll back models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, group in {
    "model": model.app,
    "version": version.app,
    "alias": alias.app,
    "dataset": dataset.app,
    "build": build.app,
    "deployment": deployment.app,
    "release": release.app,
    "drift": drift.app,
    "node": node.app,
    "token": token.app,
    "audit": audit.app,
    "blob": blob.app,
    "event": event.app,
    "webhook": webhook.app,
    "import": imports.app,
}.items():
    app.add_typer(group, name=name)
app.command("lineage")(lineage.show)
app.command("capacity")(capacity.show)
top.install(app)
blob.install(app)
backup.install(app)


def code_of(error: ApiError) -> int:
    """The exit code of a problem."""
    if error.kind == ProblemType.GUARD_FAILED:
        return GATE
    if error.status in (401, 403, 404):
        return DENIED
    if error.status in (409, 412, 428):
        return CONFLICT
    return SERVER if error.status >= 500 else USAGE


def _tell(error: ApiError) -> None:
    problem = error.problem
    hint(f"{problem.title}: {problem.detail}")
    for reason in problem.reasons:
        hint(f"  - {reason}")
    for field in problem.errors:
        hint(f"  - {field.where}: {field.what}")
    hint(f"hint: {problem.hint}")
    if problem.request_id:
        hint(f"request id: {problem.request_id}")


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line. Everything that can fail says why on stderr."""
    lost = opened()
    for sentence in strangers(os.environ):
        hint(f"warning: {sentence}")
    if lost is None:
        try:
            code = _ended(arguments)
            lost = flushed()
        except ReaderGone:
            # Quiet, as other programs in a pipe: who reads has what they wanted.
            return READER_GONE
    if lost is not None:
        hint(lost)
        return SERVER
    return code


def _ended(arguments: list[str] | None) -> int:
    """Runs the command; raises ReaderGone alone."""
    try:
        result = app(arguments, standalone_mode=False)
    except ReaderGone:
        raise
    except Detached:
        hint("detached; what runs on the registry goes on")
        return DETACHED
    except ApiError as error:
        _tell(error)
        return code_of(error)
    except WaitTimedOut as error:
        hint(str(error))
        return TIMED_OUT
    except ValidationError as error:
        for item in error.errors():
            hint(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}")
        return USAGE
    except typer.TyperException as error:
        # Every error of an argument; the base of them has no name that typer gives out.
        show = getattr(error, "show", None)
        show() if show is not None else hint(error.format_message())
        return USAGE
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        hint(str(error))
        return USAGE
    except (Unreachable, TransferFailed, TrackingError, StackError, ChildFailed, BackupError) as error:
        hint(str(error))
        return SERVER
    except OSError as error:
        # Without a file's name it is most likely what was being printed.
        hint(flushed() or (str(error) if error.filename else f"it could not be written: {error.strerror}"))
        return SERVER
    return result if isinstance(result, int) else DONE


def main() -> None:
    sys.exit(run())
