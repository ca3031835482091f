"""The addresses of a node's data plane."""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote


class Door(Enum):
    """What is asked for. The value is the method that it takes, and a number that tells doors apart."""

    ALIVE = ("GET", 1)
    READY = ("GET", 2)
    METRICS = ("GET", 3)
    SERVER = ("GET", 4)
    MODEL = ("GET", 5)
    MODEL_READY = ("GET", 6)
    INFER = ("POST", 7)
    PREDICT = ("POST", 8)

    def __init__(self, method: str, _number: int) -> None:
        self.method = method

    def takes(self, method: str) -> bool:
        return method == self.method or (method == "HEAD" and self.method == "GET")


@dataclass(frozen=True, slots=True)
class Address:
    """`model` is a deployment's name; `version` an override from the path."""

    door: Door
    model: str = ""
    version: str | None = None


_FIXED = {
    "/healthz": Door.ALIVE,
    "/v2/health/live": Door.ALIVE,
    "/readyz": Door.READY,
    "/v2/health/ready": Door.READY,
    "/metrics": Door.METRICS,
    "/v2": Door.SERVER,
}
_OF_MODEL = {"": Door.MODEL, "ready": Door.MODEL_READY, "infer": Door.INFER, "predict": Door.PREDICT}


@lru_cache(maxsize=4096)
def address_of(path: str) -> Address | None:
    """None for a path that leads nowhere. `path` as it came, percent signs included."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return Address(fixed)
    parts = path.split("/")
    if parts[:3] != ["", "v2", "models"] or len(parts) < 4:
        return None
    version = None
    rest = parts[4:]
    if rest[:1] == ["versions"]:
        if len(rest) < 2 or not rest[1]:
            return None
        version = unquote(rest[1])
        rest = rest[2:]
    door = _OF_MODEL.get("/".join(rest))
    return None if door is None or not parts[3] else Address(door, unquote(parts[3]), version)
