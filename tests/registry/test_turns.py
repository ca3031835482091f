"""Turns at the database go to who waits for longest, and waiting has an end."""

import asyncio
from contextlib import suppress

import pytest

from registry.errors import NotFound, Unavailable
from registry.turns import Turns


async def _take(turns: Turns, order: list[int], at: int, hold_s: float = 0.0) -> None:
    async with turns.turn():
        order.append(at)
        await asyncio.sleep(hold_s)


async def test_who_came_first_is_next() -> None:
    turns, order = Turns(2), list[int]()
    async with turns.turn():
        waiting = [asyncio.create_task(_take(turns, order, at)) for at in range(5)]
        await asyncio.sleep(0)
        assert len(turns) == 5 and order == []
    # One that comes now does not overtake those.
    await _take(turns, order, 5)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4, 5]
    assert len(turns) == 0


async def test_some_connections_are_left_to_the_loops() -> None:
    turns = Turns(20)
    async with asyncio.timeout(60):
        inside = [turns.turn() for _ in range(16)]
        for each in inside:
            await each.__aenter__()
        waiting = asyncio.create_task(_take(turns, [], 0))
        await asyncio.sleep(0)
        assert len(turns) == 1
        for each in inside:
            await each.__aexit__(None, None, None)
        await waiting


async def test_a_wait_goes_on_while_others_end_well_and_not_for_ever() -> None:
    turns, order = Turns(1, patience_s=0.4, longest_s=30), list[int]()
    # Each holds for less than the patience, all together for much longer.
    await asyncio.gather(*(_take(turns, order, at, 0.1) for at in range(12)))
    assert order == list(range(12))
    brief = Turns(1, patience_s=30, longest_s=0.2)
    async with brief.turn():
        with pytest.raises(Unavailable):
            await _take(brief, order, 12)


async def test_where_nothing_ends_well_the_wait_is_short() -> None:
    turns = Turns(1, patience_s=0.2, longest_s=30)

    async def failing() -> None:
        with suppress(OSError):
            async with turns.turn():
                await asyncio.sleep(0.5)
                raise OSError("no connection")

    first = asyncio.create_task(failing())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable) as refused:
        await _take(turns, [], 0)
    assert refused.value.retry_after_s == 1
    await first
    # A request that the database answered, though with a refusal, ended well.
    with suppress(NotFound):
        async with turns.turn():
            raise NotFound("there is no model", "create it")
    order: list[int] = []
    await _take(turns, order, 1)
    assert order == [1]


async def test_who_gives_up_waiting_takes_no_turn() -> None:
    turns, order = Turns(1), list[int]()
    async with turns.turn():
        gone = asyncio.create_task(_take(turns, order, 0))
        stays = asyncio.create_task(_take(turns, order, 1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        given_up_late = asyncio.create_task(_take(turns, order, 2))
        await asyncio.sleep(0)
    # Its turn has come, and it goes before it runs.
    stays.cancel()
    await asyncio.gather(stays, return_exceptions=True)
    await given_up_late
    assert order == [2]
