"""The registry's own identity and its first token, made where they are missing."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from registry.contract.tokens import Role
from registry.database import Database
from registry.edge.principal import hash_secret
from registry.settings import Settings
from registry.tables.access import TokenRow
from registry.tables.base import new_id
from registry.tables.registry import RegistryRow


@dataclass(frozen=True)
class Identity:
    """Part of every fence."""

    registry_id: str
    timeline: int


async def establish(database: Database, settings: Settings) -> Identity:
    """Reads the identity, or makes it. Tokens given by the environment work from the start."""
    async with database.session() as session, session.begin():
        await session.execute(
            insert(RegistryRow).values(singleton=True, id=new_id("reg"), timeline=1).on_conflict_do_nothing()
        )
        given = {Role.ADMIN: settings.admin_token, Role.BUILDER: settings.builder_token}
        for role, secret in given.items():
            if secret is not None:
                await session.execute(
                    insert(TokenRow)
                    .values(
                        id=new_id("tok"),
                        name=str(role),
                        hash=hash_secret(secret.get_secret_value()),
                        roles=[role],
                        models=[],
                        environments=[],
                        created_by=f"SLIPWAY_{role.name}_TOKEN",
                    )
                    .on_conflict_do_nothing(index_elements=["hash"])
                )
        row = (await session.execute(select(RegistryRow))).scalar_one()
        return Identity(row.id, row.timeline)
