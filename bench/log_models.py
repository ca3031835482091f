"""Runs in MLflow's environment: eight threads log and register models with bytes, as MLflow's users do.

`python log_models.py COUNT BYTES FOLDER` prints the seconds that COUNT models took.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlflow  # type: ignore[import-not-found]  # of its own environment

THREADS = 8


class Nothing(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model whose bytes are an artifact of its own."""

    def predict(self, context, model_input: list[str], params=None) -> list[str]:  # type: ignore[no-untyped-def]
        return model_input


def log(at: int, size: int, folder: Path) -> None:
    path = folder / f"model-{at}.bin"
    path.write_bytes(os.urandom(size))
    mlflow.pyfunc.log_model(
        name=f"bytes-{at % THREADS}",
        python_model=Nothing(),
        artifacts={"model": str(path)},
        registered_model_name=f"bytes-{at % THREADS}",
        pip_requirements=[],
    )


def main() -> None:
    count, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    mlflow.set_experiment("bench")
    for at in range(THREADS):
        log(-1 - at, size, folder)
    begun = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda at: log(at, size, folder), range(count)))
    print(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
