"""The node's one listening socket: held by the agent, inherited by its gateway workers, so that nobody is
refused while a worker is replaced."""

import errno
import socket
import time

from serving.agent.state import StateDirectory, StateError

BACKLOG = 1024
PATIENCE_S = 5.0


def listen(where: str, state: StateDirectory, patience_s: float = PATIENCE_S) -> socket.socket:
    """Bind HOST:PORT; with port 0 the one of the last start if it is free, else any. Blocks for at most
    `patience_s` while workers of a killed agent still hold the port. Raises StateError."""
    host, _, text = where.rpartition(":")
    wanted = int(text)
    port = wanted or state.port()
    give_up = time.monotonic() + patience_s
    while True:
        try:
            bound = _bind(host, port)
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise StateError(
                    f"can't listen on {host}:{port}: {error}; choose another --listen"
                ) from error
            if time.monotonic() < give_up:
                time.sleep(0.05)
            elif wanted:
                raise StateError(
                    f"{host}:{port} is taken by another program; stop it or choose another --listen"
                ) from error
            else:
                port = 0
    if not wanted:
        state.keep_port(bound.getsockname()[1])
    return bound


def address_of(bound: socket.socket) -> str:
    """HOST:PORT for callers; a socket on all interfaces is called by the machine's name."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
