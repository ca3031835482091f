"""`./run soak VERB`: the tests that find more the longer they run."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRASHES = "tests/builder/test_crashes.py"
FUZZ = "tests/builder/fuzz"


def crashes(asked: argparse.Namespace) -> int:
    """The same tests again and again, each round with servers and workers of its own."""
    for at in range(1, asked.rounds + 1):
        began = time.monotonic()
        if code := _tests(CRASHES, {}):
            print(f"round {at} of {asked.rounds} failed", file=sys.stderr)
            return code
        print(f"round {at} of {asked.rounds} passed in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def fuzz(asked: argparse.Namespace) -> int:
    """All formats, in the environments that read them, which are made where they are missing."""
    return _tests(FUZZ, {"SOAK_FILES": str(asked.files), "SOAK_SEED": str(asked.seed)})


def _tests(path: str, more: Mapping[str, str]) -> int:
    # -s: each format tells how many of its files ended how.
    words = [sys.executable, "-m", "pytest", path, "-q", "-s", "-x", "-p", "no:cacheprovider"]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **more}, check=False).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__)
    verbs = parser.add_subparsers(metavar="VERB", title="verbs")
    played = verbs.add_parser("crashes", help="the crash tests of builds, many times in a row")
    played.add_argument("--rounds", type=int, default=20, metavar="N", help="how often (default 20)")
    played.set_defaults(verb=crashes)
    broken = verbs.add_parser("fuzz", help="mutated model files of every format through import and check")
    broken.add_argument("--files", type=int, default=500, metavar="N", help="about how many (default 500)")
    broken.add_argument("--seed", type=int, default=1, metavar="N", help="other files for another number")
    broken.set_defaults(verb=fuzz)
    asked = parser.parse_args(arguments)
    if not hasattr(asked, "verb"):
        parser.print_help()
        return 2
    return int(asked.verb(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
