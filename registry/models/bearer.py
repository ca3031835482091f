"""Who asks, as the beginning of the statement that also answers (decisions 50 and 51).

It has no row, and so nothing is answered, for a token that is revoked, expired or unknown or has none of the
roles; nor for one that was not used for a minute, which is noted by the ordinary endpoint.
"""

from collections.abc import Sequence
from typing import Any

from registry.edge.principal import LAST_USED_STEP


def bearer(within: str) -> str:
    """SQL: the token's id and name. `within`: the condition on its scope."""
    return f"""
WITH bearer AS MATERIALIZED (
    SELECT id, name FROM tokens
    WHERE hash = %(hash)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        AND last_used_at > now() - %(step)s AND roles ?| %(roles)s
        AND {within}
)"""  # noqa: S608


def bearer_values(secret_hash: bytes, roles: Sequence[str]) -> dict[str, Any]:
    """What `bearer` refers to."""
    return {"hash": secret_hash, "step": LAST_USED_STEP, "roles": list(roles)}
