"""Calls on events and webhooks, and following the stream of events over every interruption."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field

from registry.client.call import Call, path, query
from registry.client.errors import ApiError, Unreachable
from registry.client.transport import RETRIED, AsyncClient, Client
from registry.contract.events import EVENT, Event, EventPage
from registry.contract.pages import Page
from registry.contract.webhooks import (
    Attempt,
    Delivery,
    DeliveryState,
    Replayed,
    Webhook,
    WebhookCreate,
    WebhookPatch,
    WebhookReason,
    WebhookRotate,
    WebhookSecret,
)
from registry.contract.wire import Command

# A stream shows a sign of life every 15 s; one that is silent for longer is dead.
SILENCE_S = 45.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0


def page(
    after: str | None = None,
    types: Sequence[str] = (),
    deployments: Sequence[str] = (),
    limit: int = 100,
) -> Call[EventPage]:
    """Oldest first. Poll with the `after` of the answer before; None: from the oldest that is kept."""
    return Call(
        "GET",
        path("events"),
        EventPage,
        query=query(after=after, type=list(types), deployment=list(deployments), limit=limit),
    )


def _stream(after: str | None, types: Sequence[str], deployments: Sequence[str]) -> Call[bytes]:
    return Call(
        "GET",
        path("events", "stream"),
        bytes,
        query=query(after=after, type=list(types), deployment=list(deployments)),
        timeout_s=SILENCE_S,
    )


@dataclass
class _Reader:
    """Server-sent events out of pieces of a stream. `seen`: the id to go on from."""

    seen: str | None
    _rest: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _id: bytes = b""

    def feed(self, piece: bytes) -> Iterator[Event]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line:
                self._take(line)
                continue
            if self._id:
                self.seen = self._id.decode()
            data, self._data = self._data, []
            if data:
                yield EVENT.validate_json(b"\n".join(data))

    def begin(self) -> None:
        """A new connection: what was left half is sent again."""
        self._rest, self._data, self._id = b"", [], b""

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"id":
            self._id = value.removeprefix(b" ")
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))


def _pause(failures: int) -> float:
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**failures)


def _passes(error: ApiError | Unreachable) -> bool:
    return isinstance(error, Unreachable) or error.status in RETRIED


def follow(
    client: Client, after: str | None = None, types: Sequence[str] = (), deployments: Sequence[str] = ()
) -> Iterator[Event]:
    """Events for ever, from now on or behind `after`: none is missed or repeated, whatever restarts.

    Raises ApiError where waiting doesn't help (token, scope, ids no longer kept).
    """
    reader, failures = _Reader(after), 0
    while True:
        reader.begin()
        try:
            with closing(client.pieces(_stream(reader.seen, types, deployments))) as pieces:  # type: ignore[type-var]
                for piece in pieces:
                    failures = 0
                    yield from reader.feed(piece)
        except (ApiError, Unreachable) as error:
            if not _passes(error):
                raise
        time.sleep(_pause(failures))
        failures += 1


async def follow_async(
    client: AsyncClient,
    after: str | None = None,
    types: Sequence[str] = (),
    deployments: Sequence[str] = (),
) -> AsyncIterator[Event]:
    """As `follow`."""
    reader, failures = _Reader(after), 0
    while True:
        reader.begin()
        try:
            async with aclosing(client.pieces(_stream(reader.seen, types, deployments))) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    failures = 0
                    for event in reader.feed(piece):
                        yield event
        except (ApiError, Unreachable) as error:
            if not _passes(error):
                raise
        await asyncio.sleep(_pause(failures))
        failures += 1


def create_webhook(body: WebhookCreate) -> Call[WebhookSecret]:
    """The secret is in this answer and in no other."""
    return Call("POST", path("webhooks"), WebhookSecret, body)


def webhook(webhook: str) -> Call[Webhook]:
    return Call("GET", path("webhooks", webhook), Webhook)


def webhooks(page_token: str | None = None, limit: int = 100) -> Call[Page[Webhook]]:
    """Oldest first."""
    return Call("GET", path("webhooks"), Page[Webhook], query=query(page_token=page_token, limit=limit))


def patch_webhook(webhook: str, body: WebhookPatch, revision: int) -> Call[Webhook]:
    return Call("PATCH", path("webhooks", webhook), Webhook, body, if_match=revision)


def delete_webhook(webhook: str, revision: int) -> Call[None]:
    """With its deliveries."""
    return Call("DELETE", path("webhooks", webhook), None, if_match=revision)


def pause_webhook(webhook: str, reason: str = "") -> Call[Webhook]:
    return Call("POST", path("webhooks", webhook, "pause"), Webhook, WebhookReason(reason=reason))


def rotate_webhook(webhook: str, body: WebhookRotate) -> Call[WebhookSecret]:
    """Another secret, shown once; for a while messages are signed with both."""
    return Call("POST", path("webhooks", webhook, "rotate"), WebhookSecret, body)


def resume_webhook(webhook: str, reason: str = "") -> Call[Webhook]:
    """What was kept for it is sent."""
    return Call("POST", path("webhooks", webhook, "resume"), Webhook, WebhookReason(reason=reason))


def test_webhook(webhook: str) -> Call[Attempt]:
    """Sends a `webhook.test` now; each sending is another one."""
    return Call("POST", path("webhooks", webhook, "test"), Attempt, Command(), timeout_s=70, repeatable=False)


def deliveries(
    webhook: str, state: DeliveryState | None = None, page_token: str | None = None, limit: int = 100
) -> Call[Page[Delivery]]:
    """Newest first; `dead`: those that were given up."""
    return Call(
        "GET",
        path("webhooks", webhook, "deliveries"),
        Page[Delivery],
        query=query(state=state, page_token=page_token, limit=limit),
    )


def replay(webhook: str, event: str | None = None) -> Call[Replayed]:
    """One delivery that has ended, or (None) all dead ones, pending again under their ids."""
    where = ("deliveries", event, "replay") if event is not None else ("replay",)
    return Call("POST", path("webhooks", webhook, *where), Replayed, Command())
