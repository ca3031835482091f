"""Private loopback ports, kept from start to start as long as they are free."""

import random
import socket
from collections.abc import Collection, Mapping, Sequence

from slipway.stack.errors import StackError

LOOPBACK = "127.0.0.1"
# Below the range from which Linux takes outgoing ports (32768 up), so that no passing client holds ours; and
# low enough that a port plus 10,000, where one server expects its gRPC twin, is below it too.
_FIRST, _LAST = 10_240, 22_000
GRPC_OFFSET = 10_000
_TRIES = 2_000


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that linger in TIME_WAIT don't make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(names: Sequence[str], earlier: Mapping[str, int], taken: Collection[int]) -> dict[str, int]:
    """A port for each name: the earlier one where it is free, else a new one outside `taken`.

    The port's twin (+10,000) is free as well when it is chosen.
    """
    ports: dict[str, int] = {}
    used = set(taken)
    for name in names:
        port = earlier.get(name)
        if port is None or port in used or not _pair_free(port):
            port = _new_port(used)
        used.add(port)
        ports[name] = port
    return ports


def _pair_free(port: int) -> bool:
    return is_free(port) and is_free(port + GRPC_OFFSET)


def _new_port(used: Collection[int]) -> int:
    for _ in range(_TRIES):
        port = random.randint(_FIRST, _LAST)  # noqa: S311  spreading ports is not a secret
        if port not in used and _pair_free(port):
            return port
    raise StackError(
        f"no free loopback port found between {_FIRST} and {_LAST}. See what holds them with: ss -ltn"
    )
