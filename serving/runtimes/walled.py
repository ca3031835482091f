"""Is this process one that may run what came with a model? Whoever starts it behind walls tells it so."""

import os

# Set inside, for the code that refuses to load anywhere else what may execute code.
MARK = "SLIPWAY_SANDBOX"


def inside() -> bool:
    """Whether this process was started behind walls."""
    return os.environ.get(MARK) == "1"
