"""An upload of 1 GiB beside boto3's own multipart upload of it, to the same store in the same run."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
from botocore.config import Config

from registry.client import Client, transfer
from slipway.credentials import FILE, Credentials, load
from slipway.launcher import Launcher
from slipway.service import Options, plan
from slipway.stack import Stack, StackAddresses
from slipway.up import migrate

SIZE = 1 << 30
ROUNDS = 3
MIB = 1 << 20


def measure(size: int = SIZE, rounds: int = ROUNDS) -> dict[str, float]:
    """`upload_ratio`: boto3's seconds / ours, medians of alternating rounds; ours hash the file, ask whether
    it is there, send and complete it. `upload_extra_mib`: our most memory above idle."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="slipway-bench-", dir="/var/tmp") as folder:
        home = Path(folder)
        home.chmod(0o711)
        stack = Stack(home / "service" / "data")
        with stack.running() as addresses:
            migrate(addresses)
            planned = plan(Options(home=home / "service", port=0, nodes=0, build_workers=0), addresses)
            launcher = Launcher(
                planned.children,
                log_dir=home / "logs",
                environment={**os.environ, **planned.environment},
                tend=stack.tend,
                announce=lambda _: None,
            )
            with launcher:
                launcher.start_all()
                source = _random_file(home / "source", size)
                for number in range(rounds):
                    _make_new(source, number)
                    theirs.append(_child("boto3", source, addresses, home))
                    ours.append(_child("slipway", source, addresses, home))
    return {
        "upload_ratio": _median(theirs, "seconds") / _median(ours, "seconds"),
        "upload_extra_mib": max(run["extra_mib"] for run in ours),
        "upload_mib_per_s": size / MIB / _median(ours, "seconds"),
        "upload_verified_after_s": _median(ours, "verified_after_s"),
        "boto3_extra_mib": max(run["extra_mib"] for run in theirs),
    }


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _random_file(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
    return path


def _make_new(path: Path, number: int) -> None:
    """Other bytes, so that nothing is known to the registry; and all of the file in the page cache."""
    with path.open("r+b") as file:
        file.write(number.to_bytes(16, "big"))
    transfer.digest_of(path)


def _child(kind: str, source: Path, addresses: StackAddresses, home: Path) -> dict[str, float]:
    """Each run in a process of its own, so that its memory is its own."""
    environment = {**os.environ, **addresses.environment(), "SLIPWAY_BENCH_HOME": str(home / "service")}
    done = subprocess.run(
        [sys.executable, "-m", "bench.uploads", kind, str(source)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _boto3(source: Path) -> dict[str, float]:
    store = boto3.client(
        "s3",
        endpoint_url=os.environ["S3_ENDPOINT_URL"],
        region_name="us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    bucket = os.environ["SLIPWAY_S3_BUCKET"]
    store.put_object(Bucket=bucket, Key="warm-up", Body=b"warm")
    before = _idle()
    began = time.perf_counter()
    store.upload_file(str(source), bucket, "by-boto3")
    seconds = time.perf_counter() - began
    extra = _peak() - before
    store.delete_object(Bucket=bucket, Key="by-boto3")
    return {"seconds": seconds, "extra_mib": extra / MIB}


def _slipway(source: Path) -> dict[str, float]:
    with Client(*_at(load(Path(os.environ["SLIPWAY_BENCH_HOME"]) / FILE.name))) as client:
        transfer.upload_bytes(client, b"warm")
        before = _idle()
        began = time.perf_counter()
        transfer.upload(client, source, timeout_s=None)
        seconds = time.perf_counter() - began
        extra = _peak() - before
        # The next run must not share the machine with the verification of this one.
        transfer.upload(client, source)
        verified = time.perf_counter() - began
    return {"seconds": seconds, "extra_mib": extra / MIB, "verified_after_s": verified}


def _at(credentials: Credentials) -> tuple[str, str]:
    return credentials.url, credentials.token


def _idle() -> int:
    """Resident bytes now; the peak is counted from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    print(json.dumps({"boto3": _boto3, "slipway": _slipway}[sys.argv[1]](Path(sys.argv[2]))))
