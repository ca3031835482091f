"""Eight threads register models with bytes, as our users do: upload, verify, seal, wait until it is ready.

`python -m bench.register_models COUNT BYTES FOLDER` prints the seconds that COUNT versions took.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.filled import CONTRACT
from slipway.client import Client

THREADS = 8


def register(client: Client, at: int, size: int, folder: Path) -> None:
    path = folder / f"model-{at}.bin"
    path.write_bytes(os.urandom(size))
    client.register(f"bytes-{at % THREADS}", {"model.bin": path}, CONTRACT)


def main() -> None:
    count, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    with Client() as client:
        for at in range(THREADS):
            register(client, -1 - at, size, folder)
        begun = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda at: register(client, at, size, folder), range(count)))
        print(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
