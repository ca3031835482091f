"""`./run worker NAME …`: makes the worker environments that are named."""

import argparse
import sys

from builder.environments.environment import UnknownEnvironment, names
from builder.environments.make import EnvironmentFailed, make


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run worker",
        description="Make the environments of heavy frameworks, so that this machine's workers import them.",
    )
    parser.add_argument("name", nargs="+", metavar="NAME", help=f"one of {', '.join(names())}")
    for name in parser.parse_args(arguments).name:
        print(f"making the {name} environment (a few minutes the first time)", file=sys.stderr, flush=True)
        try:
            made = make(name)
        except (UnknownEnvironment, EnvironmentFailed) as error:
            print(f"worker: {error}", file=sys.stderr)
            return 1
        print(f"{name}: {made.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
