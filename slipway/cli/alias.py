"""slipway alias …"""

from typing import Annotated

import typer

from registry.client import models
from registry.contract.versions import Alias, AliasChange
from slipway.cli.output import Column, Form, Output, gone, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Names for versions. An alias never moves traffic.", no_args_is_help=True)

COLUMNS: list[Column[Alias]] = [
    ("ALIAS", lambda a: a.name),
    ("MODEL", lambda a: a.model),
    ("VERSION", lambda a: a.version),
    ("SET", lambda a: f"{a.set_at:%Y-%m-%d %H:%M}Z"),
    ("BY", lambda a: a.set_by),
]
HISTORY: list[Column[AliasChange]] = [
    ("AT", lambda c: f"{c.at:%Y-%m-%d %H:%M}Z"),
    ("BY", lambda c: c.by),
    ("BEFORE", lambda c: c.before),
    ("AFTER", lambda c: c.after),
    ("VIA", lambda c: c.via),
    ("REASON", lambda c: c.reason),
]
Expect = Annotated[
    int | None, typer.Option(help="Only if it names this version until now; 0: only if it is new")
]


@app.command("list")
def list_(model: str, output: Output = Form.TABLE) -> None:
    """List a model's aliases."""
    rows(client().call(models.aliases(model)).items, COLUMNS, output)


@app.command("set")
def set_(
    model: str,
    alias: str,
    version: int,
    expect: Expect = None,
    reason: str = "",
    output: Output = Form.TABLE,
) -> None:
    """Point an alias at a version."""
    one(client().call(models.set_alias(model, alias, version, expect, reason)), COLUMNS, output)


@app.command()
def history(model: str, alias: str, limit: int = 100, output: Output = Form.TABLE) -> None:
    """Who moved an alias when, from which version to which."""
    rows(every(lambda token: models.alias_history(model, alias, token), limit), HISTORY, output)


@app.command()
def delete(model: str, alias: str, expect: Expect = None, output: Output = Form.TABLE) -> None:
    """Remove an alias."""
    client().call(models.delete_alias(model, alias, expect))
    gone("alias", f"{model} {alias}", output)
