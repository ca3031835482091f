"""SeaweedFS (`weed mini`): the S3 server, closed to everyone without the key pair."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.stack import binaries
from slipway.stack.addresses import S3Keys
from slipway.stack.ports import GRPC_OFFSET, LOOPBACK
from slipway.stack.probes import BucketProbe
from slipway.stack.process import Command, clean_environment
from slipway.stack.write import write_private

_PARTS = ("master", "volume", "filer", "s3", "admin")
_ACTIONS = ("Admin", "Read", "Write", "List", "Tagging")
_SOCKETS = "seaweedfs-*-{port}.sock"


@dataclass
class Seaweed:
    """The object store over `home`; `ports`: an HTTP port for each part, its gRPC twin is 10,000 higher."""

    home: Path
    ports: Mapping[str, int]
    keys: S3Keys
    bucket: str
    throwaway: bool
    environ: Mapping[str, str]
    _probe: BucketProbe | None = field(default=None, init=False, repr=False)

    name = "seaweed"
    port_names = _PARTS

    @property
    def url(self) -> str:
        """The S3 endpoint."""
        return f"http://{LOOPBACK}:{self.ports['s3']}"

    def command(self, log: Path) -> Command:
        """All ten ports are set; `-disableHttp`, as the filer's port serves every object without a key."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        objects = self.home / "objects"
        objects.mkdir(exist_ok=True)
        identities = self.home / "identities.json"
        write_private(identities, self._identities())
        ports = [
            flag
            for part in _PARTS
            for flag in (
                f"-{part}.port={self.ports[part]}",
                f"-{part}.port.grpc={self.ports[part] + GRPC_OFFSET}",
            )
        ]
        return Command(
            name=self.name,
            argv=(
                str(binaries.weed(self.environ)),
                "-logtostderr=true",
                "mini",
                f"-dir={objects}",
                f"-ip={LOOPBACK}",
                f"-ip.bind={LOOPBACK}",
                "-disableHttp",
                "-master.telemetry=false",
                # A resumed master is not leader at once; the volume server, refused, asks again after 5 s.
                # It needs no memory: the one volume server reports every volume and file number it has.
                "-master.resumeState=false",
                "-volume.preStopSeconds=0",
                f"-s3.config={identities}",
                "-s3.iam=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-webdav=false",
                "-admin.ui=false",
                *ports,
            ),
            log=log,
            # It reads *.toml from its working directory and its home: both are ours.
            cwd=self.home,
            env={**clean_environment(self.home), "GOMEMLIMIT": "256MiB"},
            # A graceful stop takes two seconds; data that is thrown away needs none.
            stop_signal=signal.SIGKILL if self.throwaway else signal.SIGTERM,
        )

    def _identities(self) -> bytes:
        pair = {"accessKey": self.keys.access_key, "secretKey": self.keys.secret_key}
        identity = {"name": "slipway", "credentials": [pair], "actions": list(_ACTIONS)}
        return json.dumps({"identities": [identity]}).encode()

    def probe(self) -> None:
        """A real PUT succeeds: the health address answers before the volumes can take a byte."""
        if self._probe is None:
            self._probe = BucketProbe(self.url, self.keys, self.bucket)
        self._probe()

    def clean_up(self) -> None:
        """Removes its sockets, whose place (/tmp) can't be chosen."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        for port in self.ports.values():
            for number in (port, port + GRPC_OFFSET):
                for left in Path("/tmp").glob(_SOCKETS.format(port=number)):  # noqa: S108  the server's choice
                    left.unlink(missing_ok=True)
