"""slipway model …"""

from typing import Annotated

import typer

from registry.client import models
from registry.client.call import Call
from registry.contract.pages import Page
from registry.contract.versions import Model, ModelCreate, ModelPatch
from slipway.cli.output import Column, Form, Output, gone, one, rows
from slipway.cli.session import client, every, pairs

app = typer.Typer(help="Named models.", no_args_is_help=True)

COLUMNS: list[Column[Model]] = [
    ("NAME", lambda m: m.name),
    ("TASK", lambda m: m.task),
    ("LATEST", lambda m: m.latest_version),
    ("OWNER", lambda m: m.owner),
    ("CREATED", lambda m: f"{m.created_at:%Y-%m-%d %H:%M}Z"),
]
DETAIL: list[Column[Model]] = [
    *COLUMNS,
    ("DESCRIPTION", lambda m: m.description),
    ("TAGS", lambda m: m.tags),
]


@app.command()
def create(
    name: str,
    task: str = "",
    description: str = "",
    tag: Annotated[list[str], typer.Option(help="NAME=VALUE")] = [],  # noqa: B006
    output: Output = Form.TABLE,
) -> None:
    """Create a model."""
    body = ModelCreate(name=name, task=task, description=description, tags=pairs(tag))
    one(client().call(models.create(body)), DETAIL, output)


@app.command("list")
def list_(
    search: Annotated[str | None, typer.Option(help="A text in name, task, description or owner")] = None,
    filter: Annotated[str | None, typer.Option(help="Such as: owner=ann and tags.team='nlp'")] = None,
    order_by: Annotated[str | None, typer.Option(help="name or created_at, then asc or desc")] = None,
    limit: int = 100,
    output: Output = Form.TABLE,
) -> None:
    """List models."""

    def page(token: str | None) -> Call[Page[Model]]:
        return models.page(token, search=search, filter=filter, order_by=order_by)

    rows(every(page, limit), COLUMNS, output)


@app.command()
def get(name: str, output: Output = Form.TABLE) -> None:
    """Show one model."""
    one(client().call(models.get(name)), DETAIL, output)


@app.command()
def delete(name: str, output: Output = Form.TABLE) -> None:
    """Delete a model that has no versions."""
    client().call(models.delete(name, client().call(models.get(name)).revision))
    gone("model", name, output)


@app.command()
def patch(
    name: str,
    task: str | None = None,
    description: str | None = None,
    owner: str | None = None,
    output: Output = Form.TABLE,
) -> None:
    """Change task, description or owner."""
    given = {"task": task, "description": description, "owner": owner}
    body = ModelPatch(**{field: value for field, value in given.items() if value is not None})
    revision = client().call(models.get(name)).revision
    one(client().call(models.patch(name, body, revision)), DETAIL, output)
