"""slipway token …"""

from typing import Annotated

import typer

from registry.client import access
from registry.contract.tokens import Role, Token, TokenCreate, TokenRotate, TokenSecret
from slipway.cli.output import Column, Form, Output, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Who may do what.", no_args_is_help=True)

COLUMNS: list[Column[Token]] = [
    ("TOKEN", lambda t: t.id),
    ("NAME", lambda t: t.name),
    ("ROLES", lambda t: ", ".join(t.roles)),
    ("MODELS", lambda t: ", ".join(t.models) or "all"),
    ("ENVIRONMENTS", lambda t: ", ".join(t.environments) or "all"),
    ("EXPIRES", lambda t: f"{t.expires_at:%Y-%m-%d %H:%M}Z" if t.expires_at else None),
    ("LAST USED", lambda t: f"{t.last_used_at:%Y-%m-%d %H:%M}Z" if t.last_used_at else None),
    ("REVOKED", lambda t: t.revoked_at is not None),
]
SECRET: list[Column[TokenSecret]] = [
    ("TOKEN", lambda t: t.token.id),
    ("SECRET", lambda t: t.secret),
    ("ROLES", lambda t: ", ".join(t.token.roles)),
    ("EXPIRES", lambda t: f"{t.token.expires_at:%Y-%m-%d %H:%M}Z" if t.token.expires_at else None),
]


@app.command()
def create(
    name: str,
    role: Annotated[list[Role], typer.Option()],
    model: Annotated[list[str], typer.Option(help="Limit to these models")] = [],  # noqa: B006
    environment: Annotated[list[str], typer.Option(help="Limit to these environments")] = [],  # noqa: B006
    expires_in_s: int | None = None,
    output: Output = Form.TABLE,
) -> None:
    """Make a token; its secret is shown once."""
    body = TokenCreate(
        name=name,
        roles=tuple(role),
        models=tuple(model),
        environments=tuple(environment),
        expires_in_s=expires_in_s,
    )
    one(client().call(access.create_token(body)), SECRET, output)


@app.command("list")
def list_(limit: int = 100, output: Output = Form.TABLE) -> None:
    """List tokens."""
    rows(every(access.tokens, limit), COLUMNS, output)


@app.command()
def rotate(
    token: str,
    grace_s: Annotated[int, typer.Option(help="How long the old secret goes on working")] = 86_400,
    expires_in_s: Annotated[int | None, typer.Option(help="Default: as long as the old one's life")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Make a new secret with the same rights; it is shown once."""
    body = TokenRotate(grace_s=grace_s, expires_in_s=expires_in_s)
    one(client().call(access.rotate_token(token, body)), SECRET, output)


@app.command()
def revoke(token: str, output: Output = Form.TABLE) -> None:
    """Make a token useless."""
    one(client().call(access.revoke_token(token)), COLUMNS, output)
