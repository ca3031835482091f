"""Which events someone wants and may see. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Told(Protocol):
    """What a filter looks at."""

    @property
    def type(self) -> str: ...
    @property
    def deployment(self) -> str | None: ...
    @property
    def environment(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...


@dataclass(frozen=True)
class Filter:
    """Empty means everything. `types` and `deployments` end in `*` for all of a kind or an environment;
    `environments` and `models` are a token's scope: what concerns none of them is seen by all."""

    types: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def wants(self, event: Told) -> bool:
        return (
            (not self.types or matches(event.type, self.types))
            and (not self.deployments or matches(event.deployment, self.deployments))
            and (not self.environments or event.environment is None or event.environment in self.environments)
            and (not self.models or event.model is None or event.model in self.models)
        )


def matches(text: str | None, patterns: Iterable[str]) -> bool:
    if text is None:
        return False
    return any(
        text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern for pattern in patterns
    )
