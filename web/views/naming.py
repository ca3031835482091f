"""Short names that stay distinct: v42, and with its precision where a number alone would be ambiguous."""

from collections.abc import Iterable

from registry.contract.deployments import Arm
from registry.contract.identity import parse_version


def full(arm: Arm) -> str:
    """MODEL@NUMBER@PRECISION."""
    return f"{arm.version}@{arm.precision}"


class Names:
    """Built over every version that one page names."""

    def __init__(self, versions: Iterable[str]) -> None:
        precisions: dict[int, set[str]] = {}
        for version in versions:
            ref = parse_version(version)
            precisions.setdefault(ref.number, set()).add(ref.precision or "")
        self._ambiguous = {number for number, found in precisions.items() if len(found) > 1}

    def __call__(self, version: str | Arm) -> str:
        """`v42`, or `v42 int8-static`. `version` is MODEL@NUMBER[@PRECISION]."""
        ref = parse_version(full(version) if isinstance(version, Arm) else version)
        tail = f" {ref.precision}" if ref.precision and ref.number in self._ambiguous else ""
        return f"v{ref.number}{tail}"
