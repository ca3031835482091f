"""Errands after a commit: no answer waits for them, and one that fails takes no other down."""

import asyncio

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
