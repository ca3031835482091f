"""How long to wait before the next attempt of a delivery. Pure."""


def pause_s(failures: int, first_s: float, longest_s: float, chance: float) -> float:
    """After `failures` ≥ 1 attempts in a row: doubling from `first_s` up to `longest_s`, with jitter.

    `chance` in [0, 1) picks from the upper half of the span, so that receivers that came back are not met
    by everyone at once, and nobody comes at once again.
    """
    span = min(longest_s, first_s * 2.0 ** min(failures - 1, 64))
    return span * (0.5 + chance / 2)
