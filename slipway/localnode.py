"""A node of `slipway up`: invites itself with the local admin's token the first time, then becomes the node.

python -m slipway.localnode --environment prod --state DIR [arguments of serving.node]
"""

import argparse
import os
import sys
from pathlib import Path

from registry.client import Client, nodes
from registry.contract.nodes import EnrolmentCreate


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--state", required=True, type=Path)
    options, rest = parser.parse_known_args()
    environment = dict(os.environ)
    admin = environment.pop("SLIPWAY_ADMIN_TOKEN", "")
    if not (options.state / "identity.json").exists():
        with Client(environment["SLIPWAY_REGISTRY_URL"], admin) as client:
            made = client(nodes.invite(EnrolmentCreate(environment=options.environment)))
        environment["SLIPWAY_ENROL_TOKEN"] = made.secret
    command = [sys.executable, "-m", "serving.node", "--state", str(options.state), *rest]
    os.execve(sys.executable, command, environment)  # noqa: S606 - the process becomes the node


if __name__ == "__main__":
    main()
