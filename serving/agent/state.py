"""The node's state directory: what survives a kill, a reboot and a registry that is gone."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from registry.contract.identity import Environment
from registry.contract.nodes import Fragment, Override
from registry.contract.wire import Wire
from serving.agent.snapshot import Holding
from serving.control import blob_path

SOCKET_PATH_LIMIT = 80


class StateError(Exception):
    """The state directory can't be used; the text says why and how to mend it."""


class Identity(Wire):
    """Written once at enrolment, mode 0600: `token` is a secret."""

    node: str
    environment: Environment
    registry_id: str
    token: str


class HeldDeployment(Wire):
    """One deployment of `assignment.json`, see `snapshot.Holding`."""

    target: Fragment
    serving: Fragment | None = None
    override: Override | None = None


class HeldAssignment(Wire):
    """`etag` is that of the last answer that was merged into this."""

    etag: str = ""
    draining: bool = False
    canary_lease_s: float = 120
    report_every_s: float = 2
    deployments: tuple[HeldDeployment, ...] = ()

    def holdings(self) -> dict[str, Holding]:
        return {
            item.target.deployment: Holding(item.target, item.serving, item.override)
            for item in self.deployments
        }


def held(holdings: Mapping[str, Holding]) -> tuple[HeldDeployment, ...]:
    """Form for the disk of what is held."""
    return tuple(
        HeldDeployment(target=item.target, serving=item.serving, override=item.override)
        for _, item in sorted(holdings.items())
    )


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Paths below one node's `--state`, and how files there are written."""

    root: Path

    @property
    def engines(self) -> Path:
        return self.root / "engines"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def counters(self) -> Path:
        return self.root / "counters"

    @property
    def run(self) -> Path:
        """Where sockets lie. `<state>/run` is a link to a short path when its own is too long for one."""
        return (self.root / "run").resolve()

    def engine(self, digest: str) -> Path:
        return blob_path(self.root, digest)

    def prepare(self) -> None:
        """Make the folders; sockets of an earlier incarnation are removed. Raises StateError."""
        try:
            for folder in (self.root, self.engines, self.logs, self.counters):
                folder.mkdir(parents=True, exist_ok=True)
            self._prepare_run()
        except OSError as error:
            raise StateError(f"the state directory {self.root} can't be used: {error}") from error

    def _prepare_run(self) -> None:
        link = self.root / "run"
        if len(str(link.absolute())) <= SOCKET_PATH_LIMIT:
            link.mkdir(mode=0o700, exist_ok=True)
        elif not link.is_dir() or link.resolve().stat().st_uid != os.geteuid():
            link.unlink(missing_ok=True)
            link.symlink_to(tempfile.mkdtemp(prefix="slipway-"))
        for entry in link.iterdir():
            if entry.is_socket():
                entry.unlink()

    def lock(self) -> int:
        """Hold the directory until this process ends, however it ends: before anything else is done to
        it. Raises StateError."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"the state directory {self.root} can't be made: {error}") from error
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StateError(
                f"another node agent (pid {owner}) uses {self.root}; stop it first, or give this one "
                f"a --state of its own"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    def identity(self) -> Identity | None:
        """None before the first enrolment. Raises StateError for a file that can't be read."""
        path = self.root / "identity.json"
        try:
            return Identity.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            # The error's own text may hold the token.
            raise StateError(
                f"{path} is not a node's identity ({type(error).__name__}); remove it and enrol the node "
                f"anew with --enrol-token"
            ) from None

    def keep_identity(self, identity: Identity) -> None:
        write_durably(self.root / "identity.json", identity.model_dump_json().encode(), mode=0o600)

    def assignment(self) -> HeldAssignment:
        """What was held last; nothing on the first start. A damaged file is put aside, the registry
        knows it all."""
        path = self.root / "assignment.json"
        try:
            return HeldAssignment.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return HeldAssignment()
        except ValidationError:
            path.replace(path.with_suffix(".damaged"))
            return HeldAssignment()

    def keep_assignment(self, assignment: HeldAssignment) -> None:
        """Raises OSError, for example on a full disk."""
        write_durably(self.root / "assignment.json", assignment.model_dump_json().encode())

    def port(self) -> int:
        """The port that was picked on an earlier start, 0 if none."""
        try:
            return int((self.root / "port").read_text())
        except (OSError, ValueError):
            return 0

    def keep_port(self, port: int) -> None:
        write_durably(self.root / "port", str(port).encode())

    def digests(self) -> tuple[str, ...]:
        """Engines whose bytes are here in whole, the newest first."""
        paths = self.engines.glob("sha256-*/model.onnx")
        newest = sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)
        return tuple(path.parent.name for path in newest)

    def drop_engine(self, digest: str) -> None:
        shutil.rmtree(self.engines / digest, ignore_errors=True)


def write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    """The old content or the new, never half of one, also after a power cut. Raises OSError."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
