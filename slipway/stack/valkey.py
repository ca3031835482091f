"""Valkey: the broker, with an append-only file and no eviction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.stack import binaries
from slipway.stack.ports import LOOPBACK
from slipway.stack.probes import probe_redis
from slipway.stack.process import Command, clean_environment


@dataclass
class Valkey:
    """The broker over `home`, its own part of the data directory."""

    home: Path
    port: int
    password: str = field(repr=False)
    environ: Mapping[str, str]

    name = "valkey"
    port_names = ("resp",)

    @property
    def url(self) -> str:
        """The address of database 0."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def command(self, log: Path) -> Command:
        """The configuration goes through stdin, so that the password is neither in a file nor in `ps`."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        configuration = (
            f"bind {LOOPBACK}",
            f"port {self.port}",
            f"requirepass {self.password}",
            "appendonly yes",
            # Snapshots would only repeat what the append-only file holds.
            'save ""',
            "maxmemory-policy noeviction",
            "daemonize no",
        )
        return Command(
            name=self.name,
            argv=(str(binaries.valkey_server(self.environ)), "-"),
            log=log,
            # Its files go to the working directory: no path has to survive the quoting of the configuration.
            cwd=self.home,
            env=clean_environment(self.home),
            stdin="\n".join((*configuration, "")).encode(),
        )

    def probe(self) -> None:
        """PING is answered, so its file is loaded."""
        probe_redis(self.url)

    def clean_up(self) -> None:
        """Leaves nothing outside its directory."""
