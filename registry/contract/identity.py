"""Names and identities as they appear in paths, bodies and files."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

NAME_PATTERN = r"^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$"
ENVIRONMENT_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"
DIGEST_PATTERN = r"^sha256-[0-9a-f]{64}$"
ARM_PATTERN = r"^arm-[0-9a-f]{64}$"
PRECISION_PATTERN = r"^[a-z0-9]+(?:-[a-z0-9]+)*$"
TARGET_PATTERN = r"^[a-z0-9]+(?:[._][a-z0-9]+)*$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Environment = Annotated[str, StringConstraints(pattern=ENVIRONMENT_PATTERN)]
Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
ArmId = Annotated[str, StringConstraints(pattern=ARM_PATTERN)]
TargetName = Annotated[str, StringConstraints(pattern=TARGET_PATTERN, max_length=64)]

NO_DEPLOYMENT = "{!r} is not a deployment; write ENVIRONMENT/NAME, for example prod/sentiment"

_VERSION = re.compile(r"^(?P<model>[^@/]+)@(?P<number>[1-9][0-9]{0,8})(?:@(?P<precision>[a-z0-9-]+))?$")


@dataclass(frozen=True, slots=True)
class VersionRef:
    """`model@7`, or with a precision `model@7@int8-static`."""

    model: str
    number: int
    precision: str | None = None

    def __str__(self) -> str:
        tail = f"@{self.precision}" if self.precision else ""
        return f"{self.model}@{self.number}{tail}"


@dataclass(frozen=True, slots=True)
class DeploymentRef:
    """`prod/sentiment`."""

    environment: str
    name: str

    def __str__(self) -> str:
        return f"{self.environment}/{self.name}"


def suggested_name(text: str) -> str | None:
    """A name that may be given, as near to `text` as can be; None: nothing of it may stay."""
    kept = re.sub(r"[^a-z0-9._-]+", "-", text.lower())[:64].strip("._-")
    return kept or None


def parse_version(text: str) -> VersionRef:
    """Raises ValueError with a sentence that says what form is wanted."""
    found = _VERSION.match(text)
    if not found or not re.match(NAME_PATTERN, found["model"]):
        raise ValueError(f"{text!r} is not a version; write MODEL@NUMBER or MODEL@NUMBER@PRECISION")
    return VersionRef(found["model"], int(found["number"]), found["precision"])


def parse_deployment(text: str) -> DeploymentRef:
    """Raises ValueError with a sentence that says what form is wanted."""
    environment, slash, name = text.partition("/")
    if not slash or not re.match(ENVIRONMENT_PATTERN, environment) or not re.match(NAME_PATTERN, name):
        raise ValueError(NO_DEPLOYMENT.format(text))
    return DeploymentRef(environment, name)
