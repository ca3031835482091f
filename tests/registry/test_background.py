"""Errands after a commit: no answer waits for them, and one that fails takes no other down."""

import asyncio

from registry import background
from registry.background import Errands


async def test_errands_run_in_order_past_one_that_fails() -> None:
    errands, seen = Errands(), []

    async def note(what: str) -> None:
        seen.append(what)

    async def fail() -> None:
        raise OSError("the store is away")

    errands.send([lambda: note("first"), fail, lambda: note("second")])
    assert seen == [], "sending waits for nothing"
    await errands.close(limit_s=5)
    assert seen == ["first", "second"]


async def test_closing_cuts_an_errand_that_hangs() -> None:
    errands, ended = Errands(), asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    errands.send([hang])
    await asyncio.sleep(0)
    await errands.close(limit_s=0.01)
    assert ended.is_set()


async def test_a_loop_that_fails_begins_again_and_one_that_returns_is_done() -> None:
    runs: list[str] = []
    again = asyncio.Event()

    async def fails() -> None:
        runs.append("fails")
        if len(runs) > 2:
            again.set()
            await asyncio.Event().wait()
        raise KeyError("nobody expected this")

    async def returns() -> None:
        runs.append("returns")

    async with background.running(fails, returns, again_after_s=0.01):
        await asyncio.wait_for(again.wait(), 5)
    assert runs.count("returns") == 1
