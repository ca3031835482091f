"""The command line: following events, and a webhook from its making to its test."""

import asyncio
import os
import sys

import orjson

from registry.contract.events import EVENT
from tests.registry.conftest import ADMIN, Registry
from tests.registry.events import telling
from tests.registry.events.receiver import Receiver


async def slipway(registry: Registry, *arguments: str) -> tuple[int, bytes]:
    """(exit code, stdout)"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from slipway.cli import main; main()",
        *arguments,
        env={"PATH": os.environ["PATH"], "SLIPWAY_URL": registry.url, "SLIPWAY_TOKEN": ADMIN},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out


async def test_people_follow_events_and_make_webhooks(registry: Registry, receiver: Receiver) -> None:
    await telling.make_deployments(registry, "a")
    tail = ("event", "tail", "--after", "1-1", "--limit", "3", "--type", "deployment.*", "-o", "jsonl")
    following = asyncio.create_task(slipway(registry, *tail))
    await telling.pin(registry.client, "a", 2)
    code, out = await following
    told = [EVENT.validate_json(line) for line in out.splitlines()]
    assert (code, [event.id for event in told]) == (0, ["1-2", "1-3", "1-4"])
    code, out = await slipway(registry, "webhook", "create", receiver.url, "-o", "json")
    made = orjson.loads(out)
    assert (code, made["secret"][:6]) == (0, "whsec_")
    receiver.answer = lambda _: 500
    code, _ = await slipway(registry, "webhook", "test", made["webhook"]["id"])
    assert (code, len(receiver.got)) == (3, 1)
