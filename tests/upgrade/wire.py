"""What was said on the wire: one exchange a line, and how a later registry is asked the same again."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# What another run of the same requests calls otherwise: identities, secrets, addresses, digests of these.
_OTHERWISE = re.compile(r"^(slp_|https?://|\"?(arm-|sha256-)?[0-9a-f]{64}|[a-z]{3}_[0-9a-f]{32})")


@dataclass(frozen=True)
class Exchange:
    """`path` is a whole URL where the object store was asked. `kind` sql: `path` is a query, its rows the
    answer (workers learn their task from the broker). `until`: fields that the answer came to have."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    answer: Any = None
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    until: Mapping[str, Any] = field(default_factory=dict)


def write(path: Path, exchanges: Iterable[Exchange]) -> None:
    path.write_text("".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in exchanges))


def read(path: Path) -> list[Exchange]:
    return [Exchange(**json.loads(line)) for line in path.read_text().splitlines()]


def has(answer: Any, fields: Mapping[str, Any]) -> bool:
    """Whether an answer has these fields; a name may lead inside: `fragments.0.fence.generation`."""
    return all(_field(answer, name) == value for name, value in fields.items())


def _field(value: Any, name: str) -> Any:
    for part in name.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


class Names:
    """Recorded name → the name in this run."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def learn(self, then: str, now: str) -> None:
        if then != now and _OTHERWISE.match(then):
            self._now[then] = now

    def apply(self, text: str) -> str:
        """`text` with every recorded name replaced; longer ones first, since a URL holds identities."""
        for then in sorted(self._now, key=len, reverse=True):
            text = text.replace(then, self._now[then])
        return text


# Of 0.1.0: objects in answers that its readers take only as they know them, by the field that holds them.
STRICT = ("recipe",)


def compare(then: Any, now: Any, names: Names, at: str = "answer") -> list[str]:
    """What an old reader would miss or refuse: fields that are gone, values of another type, and where it
    is strict, fields that it does not know. Learns names."""
    if then is None:
        return []
    if isinstance(then, dict):
        if not isinstance(now, dict):
            return [f"{at}: was an object, is {_kind(now)}"]
        # Some maps have names as keys: arm → share.
        then = {names.apply(key): value for key, value in then.items()}
        lost = [f"{at}.{key}: is gone" for key in then if key not in now]
        if at.endswith(STRICT):
            lost += [f"{at}.{key}: is refused by old readers" for key in now if key not in then]
        return lost + [
            fault
            for key in then
            if key in now
            for fault in compare(then[key], now[key], names, f"{at}.{key}")
        ]
    if isinstance(then, list):
        if not isinstance(now, list) or (then and not now):
            return [f"{at}: was a list of {len(then)}, is {_kind(now)}"]
        pairs = zip(then, now, strict=False)
        return [fault for i, (a, b) in enumerate(pairs) for fault in compare(a, b, names, f"{at}[{i}]")]
    if _kind(then) != _kind(now):
        return [f"{at}: was {_kind(then)} ({then!r}), is {_kind(now)} ({now!r})"]
    if isinstance(then, str):
        names.learn(then, now)
    return []


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return {str: "text", dict: "object", list: "list", type(None): "null"}[type(value)]
