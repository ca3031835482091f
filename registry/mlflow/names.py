"""Names that MLflow's clients send: those that we keep, and a sentence for each that we don't."""

import re

from pydantic import TypeAdapter, ValidationError

from registry.contract.identity import NAME_PATTERN, suggested_name
from registry.contract.versions import Tags
from registry.errors import Invalid
from registry.mlflow.wire import Tag

MAX_DESCRIPTION = 4096
MAX_RUN_ID = 256
PROMPT_TAG = "mlflow.prompt.is_prompt"

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_TAGS: TypeAdapter[Tags] = TypeAdapter(Tags)


def model_name(given: str) -> str:
    """Raises Invalid, with a name that would do."""
    return _name(given, "a model")


def alias_name(given: str) -> str:
    """Raises Invalid, with a name that would do. MLflow's own rules are stricter in one thing: no dots."""
    return _name(given, "an alias")


def _name(given: str, what: str) -> str:
    if re.match(NAME_PATTERN, given):
        return given
    better = suggested_name(given)
    raise Invalid(
        f"{given!r} can't be the name of {what} here: 1 to 64 lower case letters, digits, '.', '_' and '-', "
        "with a letter or digit at both ends",
        f"use {better!r}, for example" if better else "choose another name",
    )


def version_number(given: str) -> int:
    """Raises Invalid."""
    if not _NUMBER.fullmatch(given):
        raise Invalid(f"{given!r} is not the number of a version", "write it as an integer, for example 3")
    return int(given)


def tags(given: tuple[Tag, ...]) -> Tags:
    """The last one of a key counts, as with MLflow. Raises Invalid for keys and values that are too long."""
    made = {tag.key: tag.value for tag in given}
    if "" in made:
        raise Invalid("a tag has no key", "name it")
    try:
        return _TAGS.validate_python(made)
    except ValidationError as error:
        where = error.errors()[0]["loc"]
        raise Invalid(
            f"the tag {str(where[0])[:80]!r} does not fit: keys have up to 64, values up to 256 characters",
            "shorten it; longer texts belong into a file of the version, or its description",
        ) from error


def description(given: str | None) -> str:
    """Raises Invalid."""
    if given is not None and len(given) > MAX_DESCRIPTION:
        raise Invalid(
            f"the description has {len(given)} characters; the limit is {MAX_DESCRIPTION}", "shorten it"
        )
    return given or ""


def run_id(given: str | None) -> str | None:
    """Raises Invalid."""
    if given is not None and len(given) > MAX_RUN_ID:
        raise Invalid(f"the run id has {len(given)} characters; the limit is {MAX_RUN_ID}", "shorten it")
    return given or None
