"""Plays `import`, and `check` of what came out, on many versions: each in a process of its own, as a step is.

python -m tests.builder.fuzz.player SEED CASE …

The libraries are loaded once, and forked from. Each CASE is a folder with the files of a version in
`version/`; how it ended is left in `ended.json`. Runs in the format's environment.
"""

import json
import os
import resource
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from builder.steps import __main__ as steps

LIMIT_S = 60
# As for a step of 2 GiB: what it may hold, and the address space that is never used.
ADDRESS_BYTES = 10 << 30
LIBRARIES = {
    "lightgbm": ("lightgbm", "builder.frontends.lightgbm"),
    "skops": ("skops.io", "sklearn.pipeline", "skl2onnx", "builder.frontends.sklearn"),
    "pt2": ("torch", "torch.export", "torch.onnx", "onnxscript", "builder.frontends.pytorch"),
    "torchscript": ("torch", "torch.onnx", "builder.frontends.pytorch"),
    "state-dict": ("torch", "torch.export", "torch.onnx", "onnxscript", "builder.frontends.pytorch"),
    "saved-model": ("tensorflow", "tf2onnx", "builder.frontends.tensorflow"),
}


def _steps(seed: Path, case: Path) -> int:
    words = ["import", "--input", f"version={case / 'version'}", "--parameters", f"@{seed / 'import.json'}"]
    sample = ["--input", f"sample={seed / 'sample.npz'}"]
    takes_sample = "signature" in json.loads((seed / "import.json").read_text())
    code = steps.main([*words, *(sample if takes_sample else ()), "--out", str(case / "import")])
    if code:
        return code
    model = ["--input", f"model={case / 'import' / 'model.onnx'}", *sample]
    return steps.main(
        ["check", *model, "--parameters", f"@{seed / 'check.json'}", "--out", str(case / "check")]
    )


def _play(seed: Path, case: Path) -> None:
    """In the child: never returns."""
    code = 70
    try:
        log = os.open(case / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(case)
        code = _steps(seed, case)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _waited(child: int) -> int | None:
    """The exit code, negative for a signal; None: it hung, and was ended."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main(seed: Path, form: str, cases: list[Path]) -> None:
    for name in ("onnx", "onnx.version_converter", "onnxruntime", *LIBRARIES.get(form, ())):
        import_module(name)
    for name in ("importing", "check"):
        import_module(f"builder.steps.{name}")
    for case in cases:
        child = os.fork()
        if child == 0:
            _play(seed, case)
        (case / "ended.json").write_text(json.dumps(_waited(child)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [Path(line) for line in sys.stdin.read().splitlines()])
