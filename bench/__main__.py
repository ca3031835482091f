"""`./run bench NAME`: measurements, recorded with the facts of the machine. Ratios of one run."""

import argparse
import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import orjson

NAMES = ("builder", "capacity", "registry", "rollback", "serving", "statistics")
RESULTS = Path(__file__).with_name("results")


def facts() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "all"), help="what to measure")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--models", default="", help="for builder: names of models, with commas; all by default"
    )
    options = parser.parse_args()
    more = {"only": options.models.split(",")} if options.models and options.name == "builder" else {}
    names = NAMES if options.name == "all" else (options.name,)
    for name in names:
        before = facts()
        found = importlib.import_module(f"bench.{name}").run(options.output, **more)
        if options.output == "json":
            print(orjson.dumps(found).decode())
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{name}.json"
        path.write_bytes(orjson.dumps({"facts": before, "figures": found}, option=orjson.OPT_INDENT_2))
        print(f"recorded in {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
