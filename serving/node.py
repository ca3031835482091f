"""`python -m serving.node`: a serving node. It serves on from its disk while the registry is away."""

import asyncio
import logging
import os
import sys

from pydantic import ValidationError

from registry.client import ApiError
from registry.client.variables import strangers, wrong
from serving.agent.agent import Agent
from serving.agent.enrol import identity
from serving.agent.listener import address_of, listen
from serving.agent.state import StateDirectory, StateError
from serving.runtimes.environment import check_environment
from serving.runtimes.errors import ConflictingRuntimes
from serving.settings import NodeSettings, node_settings

log = logging.getLogger("agent")


def main() -> int:
    """Exit code 0 after a clean stop, 78 (EX_CONFIG) for a wrong setting, 2 when it can't start for another
    reason, which is on standard error."""
    try:
        settings = node_settings(sys.argv[1:])
    except ValidationError as error:
        for sentence in wrong(NodeSettings, error):
            print(f"node: {sentence}", file=sys.stderr)
        return os.EX_CONFIG
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for sentence in strangers(os.environ):
        log.warning(sentence)
    log.info("starts with %s", settings.described())
    try:
        asyncio.run(_serve(settings))
    except (StateError, ConflictingRuntimes, ApiError) as error:
        log.error("can't start: %s", error)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(settings: NodeSettings) -> None:
    check_environment()
    state = StateDirectory(settings.state.absolute())
    state.lock()
    state.prepare()
    with listen(settings.listen, state) as bound:
        address = settings.address or address_of(bound)
        known = await identity(settings, state, address)
        await Agent(settings, state, known, bound, address).run()


if __name__ == "__main__":
    sys.exit(main())
