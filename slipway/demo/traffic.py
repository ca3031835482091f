"""Starting and stopping the load client, and reading what it wrote down."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from slipway.demo.load import Attempt

_REQUESTS = re.compile(
    r'^slipway_requests_total\{.*outcome="(?P<outcome>[a-z_]+)"\} (?P<n>\d+)$', re.MULTILINE
)


@dataclass(frozen=True)
class Journal:
    """Every attempt of the load client, by order of its answer."""

    attempts: tuple[Attempt, ...]

    @property
    def failed(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.status != 200)

    def since(self, moment: float) -> Counter[str]:
        """Answers by version, of what was sent after a wall-clock moment."""
        return Counter(attempt.version for attempt in self.attempts if attempt.sent_at >= moment)

    def last_answer(self, version: str, node: str) -> float | None:
        """When a node last answered with a version, by the client's wall clock."""
        times = [a.answered_at for a in self.attempts if a.version == version and a.node == node]
        return max(times, default=None)


def read(path: Path) -> Journal:
    """Whole lines only: the client may be writing the last one."""
    if not path.exists():
        return Journal(())
    lines = path.read_text().split("\n")[:-1]
    return Journal(tuple(Attempt(**json.loads(line)) for line in lines if line))


@dataclass
class Load:
    """A running load client."""

    process: subprocess.Popen[bytes]
    path: Path

    def journal(self) -> Journal:
        return read(self.path)

    def stop(self) -> Journal:
        """Ends it with every answer in. Raises RuntimeError when it broke."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        if code:
            raise RuntimeError(f"the load client ended with code {code}; its log is {self.path}.log")
        return self.journal()


@contextmanager
def load(
    inputs: Path, url: str, ref: str, token_file: Path, folder: Path, rate: float, seed: int
) -> Iterator[Load]:
    """Sends until the block ends."""
    path = folder / "journal.jsonl"
    command = [
        sys.executable,
        "-m",
        "slipway.demo.load",
        *("--inputs", str(inputs)),
        *("--nodes-url", f"{url}/v1/deployments/{ref}/nodes"),
        *("--token-file", str(token_file)),
        *("--model", ref.partition("/")[2]),
        *("--rate", str(rate)),
        *("--seed", str(seed)),
        *("--journal", str(path)),
    ]
    with Path(f"{path}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        running = Load(process, path)
        try:
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=60)


def counted_by_nodes(addresses: Sequence[str]) -> int:
    """What the nodes' own counters say: requests that ended, over all arms and outcomes."""
    total = 0
    for address in addresses:
        answer = httpx.get(f"http://{address}/metrics", trust_env=False, timeout=10)
        answer.raise_for_status()
        total += sum(int(found["n"]) for found in _REQUESTS.finditer(answer.text))
    return total
