"""What an engine process says of itself."""

from registry.contract.versions import Signature
from registry.contract.wire import Wire


class EngineInfo(Wire):
    """`load_ms`: part (read, deserialise, copy, warm_up) → milliseconds. Memory in bytes: `engine_bytes` is
    what the engine added to the process, `device_bytes` what it holds on a card, `rss_bytes` the whole
    process. `provider` is the one that does the work."""

    pid: int
    target: str
    provider: str
    threads: int
    signature: Signature
    load_ms: dict[str, float]
    engine_bytes: int
    device_bytes: int
    rss_bytes: int
    runs: int


class WarmPoint(Wire):
    """The second run of a batch of `rows`."""

    rows: int
    first_us: int
    again_us: int


class WarmReport(Wire):
    """`skipped` says why no run was made of made-up inputs; empty when all buckets ran."""

    points: tuple[WarmPoint, ...]
    skipped: str = ""
