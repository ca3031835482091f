"""Writes docs/settings.md from the settings' types: `python -m tests.docs.settings_page > docs/settings.md`.

It stands among the tests because no other room may import the settings of all processes.
"""

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from builder.settings import Settings as Worker
from registry.settings import Settings as Registry
from serving.settings import NodeSettings as Node
from web.settings import Settings as Web

HEAD = """# Settings

Generated from the settings' types (`python -m tests.docs.settings_page`); a test compares the two.

Every process reads its settings from the environment when it starts, refuses to start with a wrong one, and
logs what it took, without secrets. Names that end in `_S` are seconds, in `_BYTES` bytes, in `_GIB` GiB.
Lists are written with commas.
"""

PROCESSES: tuple[tuple[str, str, type[BaseSettings]], ...] = (
    ("Registry", "`python -m slipway.server`, any number of them", Registry),
    ("Web UI", "part of `python -m slipway.server`", Web),
    ("Worker", "`python -m builder.worker`", Worker),
    ("Node", "`python -m serving.node`; its command line comes first", Node),
)


def variable(settings: type[BaseSettings], name: str, field: FieldInfo) -> str:
    """The name that the environment has for it."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        chosen = [str(each) for each in alias.choices if str(each).isupper()]
        return " or ".join(f"`{each}`" for each in chosen)
    if isinstance(alias, str):
        return f"`{alias}`"
    prefix = settings.model_config.get("env_prefix", "")
    return f"`{prefix}{name.upper()}`"


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default_factory is not None:
        return "of the machine"
    value = field.default
    if value is None or value == () or value == {}:
        return "–"
    if isinstance(value, SecretStr):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def _secret(annotation: Any) -> bool:
    if annotation is SecretStr:
        return True
    return get_origin(annotation) in (Union, types.UnionType) and SecretStr in get_args(annotation)


def table(settings: type[BaseSettings]) -> Iterator[str]:
    yield "| Variable | Default | What it is |"
    yield "|---|---|---|"
    for name, field in settings.model_fields.items():
        what = (field.description or "").replace("|", "\\|")
        if _secret(field.annotation):
            what = f"{what} (secret)".strip()
        yield f"| {variable(settings, name, field)} | {default(field)} | {what} |"


def page() -> str:
    lines = [HEAD]
    for title, command, settings in PROCESSES:
        lines += [f"## {title}", "", f"{command}.", "", *table(settings), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
