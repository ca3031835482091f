"""One attempt: what counts as delivered, what is refused, and what a receiver can't do to us."""

import time
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from registry.contract.webhooks import verified
from registry.events.sender import Sender, Target
from tests.registry.events.receiver import Receiver, down

SECRET = "whsec_c2VjcmV0"
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    made = Sender(1.5, LOOPBACK)
    yield made
    await made.close()


async def test_what_is_sent_is_signed(sender: Sender, receiver: Receiver) -> None:
    outcome = await sender.send(Target(receiver.url, (SECRET,)), "whk_1-1", b"{}")
    assert (outcome.delivered, outcome.status, outcome.error) == (True, 204, "")
    (got,) = receiver.got
    assert verified(SECRET, got.headers, got.body, time.time())
    assert (got.message, got.headers["host"]) == ("whk_1-1", f"127.0.0.1:{receiver.port}")


async def test_a_name_is_looked_up_and_judged(sender: Sender, receiver: Receiver) -> None:
    url = f"http://localhost:{receiver.port}/hook"
    strict = Sender(1.5, ())
    refused = await strict.send(Target(url, (SECRET,)), "whk_1-1", b"{}")
    await strict.close()
    assert refused.status is None
    assert "is not a public address" in refused.error
    assert receiver.got == []


async def test_a_redirect_is_not_followed(sender: Sender, receiver: Receiver) -> None:
    receiver.answer = lambda _: 307
    outcome = await sender.send(Target(receiver.url, (SECRET,)), "m", b"{}")
    assert (outcome.delivered, outcome.status) == (False, 307)
    assert "redirects are not followed" in outcome.error
    assert [got.path for got in receiver.got] == ["/hook"]


async def test_an_endless_answer_is_not_read(sender: Sender, receiver: Receiver) -> None:
    receiver.endless = True
    receiver.answer = lambda _: 200
    outcome = await sender.send(Target(receiver.url, (SECRET,)), "m", b"{}")
    assert outcome.delivered


async def test_silence_and_absence_are_failures_with_a_reason(sender: Sender, receiver: Receiver) -> None:
    receiver.delay_s = 4
    silent = await sender.send(Target(receiver.url, (SECRET,)), "m", b"{}")
    assert (silent.status, silent.error) == (None, "no answer within 1.5 s")
    absent = await sender.send(Target(down().url, (SECRET,)), "m", b"{}")
    assert absent.status is None
    assert absent.error.startswith("ConnectError")
    assert "whsec" not in repr(Target(receiver.url, (SECRET,)))
