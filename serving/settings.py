"""Settings of a node: environment (SLIPWAY_…), and the command line above it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class NodeSettings(BaseSettings):
    model_config = SettingsConfigDict(frozen=True, populate_by_name=True)

    registry: str = Field(
        default="http://127.0.0.1:8080",
        validation_alias=AliasChoices("registry", "SLIPWAY_REGISTRY_URL", "SLIPWAY_URL"),
        description="Where the registry answers",
    )
    state: Path = Field(
        default=Path("slipway-node"),
        validation_alias=AliasChoices("state", "SLIPWAY_NODE_STATE"),
        description="The node's own directory: identity, assignment, engines, counters",
    )
    name: str | None = Field(
        default=None,
        validation_alias=AliasChoices("name", "SLIPWAY_NODE_NAME"),
        description="The node's name, told at enrolment; default: the machine's",
    )
    listen: str = Field(
        default="127.0.0.1:0",
        pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\[\]]+):[0-9]{1,5}$",
        validation_alias=AliasChoices("listen", "SLIPWAY_NODE_LISTEN"),
        description="HOST:PORT of the inference port; port 0: a free one, the same after a restart",
    )
    address: str | None = Field(
        default=None,
        validation_alias=AliasChoices("address", "SLIPWAY_NODE_ADDRESS"),
        description="HOST:PORT under which callers reach it; default: what it listens on",
    )
    labels: dict[str, str] = Field(
        default={},
        validation_alias=AliasChoices("labels", "SLIPWAY_NODE_LABELS"),
        description="What deployments select by, told at enrolment; as JSON in the environment",
    )
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        validation_alias=AliasChoices("workers", "SLIPWAY_NODE_WORKERS"),
        description="Gateway processes",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=256,
        validation_alias=AliasChoices("threads", "SLIPWAY_NODE_THREADS"),
        description="Cores that one engine run may use",
    )
    drain_s: float = Field(
        default=20,
        gt=0,
        validation_alias=AliasChoices("drain_s", "SLIPWAY_NODE_DRAIN_S"),
        description="Seconds that requests inside have to end when the node is stopped",
    )
    enrol_token: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("enrol_token", "SLIPWAY_ENROL_TOKEN"),
        description="One-time token, needed on the first start only",
    )

    def described(self) -> str:
        """One line without secrets."""
        plain = self.model_dump(mode="json", exclude={"enrol_token"})
        return " ".join(f"{name}={value}" for name, value in plain.items())


def node_settings(arguments: Sequence[str]) -> NodeSettings:
    """Exits with a usage message for arguments that can't be understood. Raises ValidationError."""
    parser = argparse.ArgumentParser(prog="python -m serving.node", description="A Slipway serving node.")
    fields = NodeSettings.model_fields
    for name in (
        "registry",
        "state",
        "name",
        "listen",
        "address",
        "workers",
        "threads",
        "drain_s",
        "enrol_token",
    ):
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, default=argparse.SUPPRESS, help=fields[name].description)
    parser.add_argument(
        "--label",
        action="append",
        default=argparse.SUPPRESS,
        metavar="KEY=VALUE",
        type=_label,
        help=fields["labels"].description,
    )
    given = vars(parser.parse_args(arguments))
    if "label" in given:
        given["labels"] = dict(given.pop("label"))
    return NodeSettings(**given)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no label; write KEY=VALUE, for example zone=a")
    return key, value
