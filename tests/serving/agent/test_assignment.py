"""The long poll, and reading what a newer registry says."""

import asyncio

import orjson
import pytest

from registry.contract.routes import ArmRole
from serving.agent.assignment import AssignmentPoll, ReadAssignment, read_assignment
from tests.serving.agent.making import arm, assignment, fragment
from tests.serving.agent.peer import NODE, TOKEN, Peer

STABLE = arm(1, ArmRole.STABLE, 10_000)


class Heard:
    def __init__(self, peer: Peer, etag: str = "") -> None:
        self.assignments: asyncio.Queue[tuple[ReadAssignment, str]] = asyncio.Queue()
        self.contacts = 0
        self.poll = AssignmentPoll(
            peer.url,
            NODE,
            TOKEN,
            etag,
            lambda read, tag: self.assignments.put_nowait((read, tag)),
            self._contact,
        )

    def _contact(self) -> None:
        self.contacts += 1

    async def next(self) -> tuple[ReadAssignment, str]:
        async with asyncio.timeout(60):
            return await self.assignments.get()


async def test_a_change_arrives_while_the_question_waits(peer: Peer) -> None:
    heard = Heard(peer)
    task = asyncio.create_task(heard.poll.run())
    try:
        peer.assign(assignment(fragment(1, [STABLE])))
        read, etag = await heard.next()
        assert read.assignment.fragments[0].fence.generation == 1
        while (etag, "30") not in peer.polls:
            await asyncio.sleep(0.01)
        peer.assign(assignment(fragment(2, [STABLE])))
        read, _ = await heard.next()
        assert read.assignment.fragments[0].fence.generation == 2
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_first_question_with_a_known_etag_is_a_contact_at_once(peer: Peer) -> None:
    peer.assign(assignment(fragment(1, [STABLE])))
    heard = Heard(peer, etag='"1"')
    task = asyncio.create_task(heard.poll.run())
    try:
        async with asyncio.timeout(60):
            while not heard.contacts:
                await asyncio.sleep(0.01)
        assert peer.polls[0] == ('"1"', "0")
        assert heard.assignments.empty()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_comes_back_after_the_registry_was_away(peer: Peer) -> None:
    peer.assign(assignment(fragment(1, [STABLE])))
    peer.stop()
    heard = Heard(peer)
    task = asyncio.create_task(heard.poll.run())
    try:
        async with asyncio.timeout(60):
            while not heard.poll.trouble:
                await asyncio.sleep(0.01)
        assert "no answer from the registry" in heard.poll.trouble
        peer.start()
        await heard.next()
        assert heard.contacts == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_refused_token_says_how_to_mend_it(peer: Peer) -> None:
    peer.refuse = 401
    heard = Heard(peer)
    task = asyncio.create_task(heard.poll.run())
    try:
        async with asyncio.timeout(60):
            while not heard.poll.trouble:
                await asyncio.sleep(0.01)
        assert "enrol it anew" in heard.poll.trouble
        assert heard.contacts == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_unknown_fields_are_ignored_and_unknown_kinds_hide_one_fragment_only() -> None:
    plain = assignment(fragment(1, [STABLE]), fragment(7, [STABLE], deployment="prod/new")).model_dump(
        mode="json"
    )
    plain["a_later_field"] = plain["fragments"][0]["another"] = 1
    pipeline = plain["fragments"][1]["arms"][0]["contract"]["pipeline"]
    pipeline["pre"] = [{"kind": "a-step-of-tomorrow"}]
    read = read_assignment(orjson.dumps(plain))
    assert [item.deployment for item in read.assignment.fragments] == ["prod/m"]
    assert "prod/new" in read.notes[0] and "up to date" in read.notes[0]


def test_what_is_no_assignment_is_refused() -> None:
    with pytest.raises(ValueError, match="fragments"):
        read_assignment(b"[]")
