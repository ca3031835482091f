"""slipway alias …"""

import typer

from registry.client import models
from registry.contract.versions import Alias
from slipway.cli.output import Column, Form, Output, hint, one, rows
from slipway.cli.session import client

app = typer.Typer(help="Names for versions. An alias never moves traffic.", no_args_is_help=True)

COLUMNS: list[Column[Alias]] = [
    ("ALIAS", lambda a: a.name),
    ("MODEL", lambda a: a.model),
    ("VERSION", lambda a: a.version),
    ("SET", lambda a: f"{a.set_at:%Y-%m-%d %H:%M}Z"),
    ("BY", lambda a: a.set_by),
]


@app.command("list")
def list_(model: str, output: Output = Form.TABLE) -> None:
    """List a model's aliases."""
    rows(client().call(models.aliases(model)).items, COLUMNS, output)


@app.command("set")
def set_(model: str, alias: str, version: int, output: Output = Form.TABLE) -> None:
    """Point an alias at a version."""
    one(client().call(models.set_alias(model, alias, version)), COLUMNS, output)


@app.command()
def delete(model: str, alias: str) -> None:
    """Remove an alias."""
    client().call(models.delete_alias(model, alias))
    hint(f"{alias} of {model} is gone")
