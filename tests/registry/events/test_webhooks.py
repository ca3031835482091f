"""Webhooks: who may, what is kept secret, and deliveries in order whatever the receiver does."""

import time

import pytest

from registry.client import ApiError, access, events
from registry.contract.events import PinChanged
from registry.contract.tokens import Role
from registry.contract.webhooks import DeliveryState, WebhookCreate, WebhookPatch, WebhookRotate, verified
from tests import patience
from tests.registry.conftest import ADMIN, Registry
from tests.registry.events import telling
from tests.registry.events.receiver import Receiver, down
from tests.registry.support import run_sql


async def test_a_webhook_from_its_making_to_its_end(registry: Registry, receiver: Receiver) -> None:
    releaser = await registry.as_role(Role.RELEASER)
    viewer = await registry.as_role(Role.VIEWER)
    with pytest.raises(ApiError, match="this needs releaser"):
        await viewer(events.webhooks())
    with pytest.raises(ApiError, match="not a public address"):
        await releaser(events.create_webhook(WebhookCreate(url="http://169.254.169.254/latest")))
    made = await releaser(events.create_webhook(WebhookCreate(url=down().url, types=("node.*",))))
    webhook = made.webhook.id
    with pytest.raises(ApiError, match="this needs releaser"):
        await viewer(events.test_webhook(webhook))
    attempt = await releaser(events.test_webhook(webhook))
    assert (attempt.delivered, attempt.status) == (False, None)
    changed = await releaser(events.patch_webhook(webhook, WebhookPatch(url=receiver.url), 1))
    assert (changed.url, changed.types, changed.revision) == (receiver.url, ("node.*",), 2)
    with pytest.raises(ApiError, match="is at revision 2") as stale:
        await releaser(events.delete_webhook(webhook, 1))
    assert stale.value.status == 412
    attempt = await releaser(events.test_webhook(webhook))
    assert (attempt.delivered, attempt.status) == (True, 204)
    (got,) = receiver.got
    assert got.event.type == "webhook.test"
    assert verified(made.secret, got.headers, got.body, time.time())
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        pages = [await http.get(path) for path in ("/v1/webhooks", f"/v1/webhooks/{webhook}", "/v1/audit")]
    assert all(page.status_code == 200 and made.secret[6:] not in page.text for page in pages)
    await releaser(events.delete_webhook(webhook, 2))
    with pytest.raises(ApiError, match="there is no webhook"):
        await releaser(events.webhook(webhook))
    trail = await registry.client(access.audit(subject=f"webhook:{webhook}"))
    assert [entry.action for entry in trail.items] == ["webhook.delete", "webhook.patch", "webhook.create"]


async def test_a_secret_is_changed_with_an_overlap(registry: Registry, receiver: Receiver) -> None:
    made = await telling.subscribe(registry, receiver.url)
    webhook = made.webhook.id

    async def sent() -> tuple[bool, bool, bool]:
        """Whether a message is signed with the first, second, third secret."""
        assert (await registry.client(events.test_webhook(webhook))).delivered
        got = receiver.got[-1]
        known = (made.secret, second.secret, third.secret if third else second.secret)
        return tuple(verified(secret, got.headers, got.body, time.time()) for secret in known)  # type: ignore[return-value]

    third = None
    second = await registry.client(events.rotate_webhook(webhook, WebhookRotate(grace_s=3600)))
    assert second.webhook.old_secret_until is not None
    assert await sent() == (True, True, True)
    third = await registry.client(events.rotate_webhook(webhook, WebhookRotate(grace_s=2)))
    assert await sent() == (False, True, True)
    async with telling.deadline():
        while (await registry.client(events.webhook(webhook))).old_secret_until is not None:
            await telling.pause()
    assert await sent() == (False, False, True)
    last = await registry.client(events.rotate_webhook(webhook, WebhookRotate(grace_s=0)))
    assert last.webhook.old_secret_until is None
    assert await sent() == (False, False, False)
    trail = await registry.client(access.audit(subject=f"webhook:{webhook}"))
    assert [entry.action for entry in trail.items][:3] == ["webhook.rotate"] * 3
    assert not any(
        secret[6:] in trail.model_dump_json() for secret in (made.secret, second.secret, last.secret)
    )


async def test_a_limited_token_hears_and_sees_only_within_its_limits(
    registry: Registry, receiver: Receiver
) -> None:
    await telling.make_deployments(registry, "a")
    dev = await registry.as_role(Role.RELEASER, environments=("dev",))
    own = await dev(events.create_webhook(WebhookCreate(url=receiver.url)))
    whole = await telling.subscribe(registry, receiver.url)
    await telling.pin(registry.client, "a")
    await telling.deliveries(registry, whole.webhook.id, DeliveryState.DELIVERED, 2)
    assert (await dev(events.deliveries(own.webhook.id))).items == ()
    assert [each.id for each in (await dev(events.webhooks())).items] == [own.webhook.id]
    with pytest.raises(ApiError, match="there is no webhook"):
        await dev(events.webhook(whole.webhook.id))


async def test_a_receiver_that_was_down_gets_everything_once_and_in_order(registry: Registry) -> None:
    receiver = down()
    await telling.make_deployments(registry, "a", "b", "other")
    deployments = ("prod/a", "prod/b")
    made = await telling.subscribe(registry, receiver.url, deployments=deployments)
    for at in range(3):
        await telling.pin(registry.client, "a", begin=at)
        await telling.pin(registry.client, "b", begin=at)
    await telling.pin(registry.client, "other")
    await telling.deliveries(registry, made.webhook.id, DeliveryState.PENDING, 12)
    heads = "SELECT 1 FROM deliveries WHERE attempts >= 2"
    async with telling.deadline():
        while len(await run_sql(registry, heads)) < 2:
            await telling.pause()
    assert len(await run_sql(registry, "SELECT 1 FROM deliveries WHERE attempts > 0")) == 2, "heads alone"
    with receiver.running():
        done = await telling.deliveries(registry, made.webhook.id, DeliveryState.DELIVERED, 12)
    told = [got.event for got in receiver.taken()]
    assert sorted(event.id for event in told) == sorted(delivery.event for delivery in done)
    for name in ("a", "b"):
        assert telling.reasons(told, name) == ["0", "1", "2"]
    assert len({got.message for got in receiver.got}) == 12


async def test_one_deployments_trouble_is_not_anothers(registry: Registry, receiver: Receiver) -> None:
    receiver.answer = lambda event: 500 if event["deployment"] == "prod/a" else 200
    await telling.make_deployments(registry, "a", "b")
    made = await telling.subscribe(registry, receiver.url)
    await telling.pin(registry.client, "a", 2)
    await telling.pin(registry.client, "b", 2)
    await telling.deliveries(registry, made.webhook.id, DeliveryState.DELIVERED, 4)
    assert telling.reasons([got.event for got in receiver.taken()], "b") == ["0", "1"]
    stuck = await telling.deliveries(registry, made.webhook.id, DeliveryState.PENDING, 4)
    assert (stuck[0].status, stuck[0].error) == (500, "the receiver answered 500")
    assert [each.attempts for each in stuck[1:]] == [0, 0, 0]
    receiver.answer = lambda _: 200
    await telling.deliveries(registry, made.webhook.id, DeliveryState.DELIVERED, 8)
    assert telling.reasons([got.event for got in receiver.taken()], "a") == ["0", "1"]


async def test_a_dead_letter_is_shown_passed_over_and_replayed(
    registry: Registry, receiver: Receiver
) -> None:
    receiver.answer = lambda event: 422 if event["data"]["reason"] == "poison" else 200  # type: ignore[index]
    await telling.make_deployments(registry, "a")
    made = await telling.subscribe(registry, receiver.url)
    webhook = made.webhook.id
    await run_sql(registry, "ALTER TABLE deliveries ALTER since SET DEFAULT now() - interval '25 hours'")
    await telling.pin(registry.client, "a", begin=0)
    await telling.pin_for(registry.client, "a", "poison")
    (dead,) = await telling.deliveries(registry, webhook, DeliveryState.DEAD, 1)
    assert (dead.status, dead.attempts, dead.deployment) == (422, 1, "prod/a")
    await telling.deliveries(registry, webhook, DeliveryState.DELIVERED, 3)
    with pytest.raises(ApiError, match="has no delivery of event 1-999"):
        await registry.client(events.replay(webhook, "1-999"))
    receiver.answer = lambda _: 200
    assert (await registry.client(events.replay(webhook))).count == 1
    await telling.deliveries(registry, webhook, DeliveryState.DELIVERED, 4)
    assert (await registry.client(events.replay(webhook))).count == 0
    sent = [got.message for got in receiver.got if got.event.id == dead.event]
    assert sent == [f"{webhook}_{dead.event}"] * 2, "the same id, so that a receiver knows it again"
    assert (await registry.client(events.replay(webhook, dead.event))).count == 1
    await telling.until(lambda: sum(got.event.id == dead.event for got in receiver.got) == 3)


async def test_410_pauses_and_resuming_loses_nothing(registry: Registry, receiver: Receiver) -> None:
    receiver.answer = lambda _: 410
    await telling.make_deployments(registry, "a")
    made = await telling.subscribe(registry, receiver.url)
    webhook = made.webhook.id
    await telling.pin(registry.client, "a")
    async with telling.deadline():
        while (found := await registry.client(events.webhook(webhook))).state != "paused":
            await telling.pause()
    assert found.state_reason.startswith("the receiver answered 410")
    await telling.pin(registry.client, "a", begin=1)
    await telling.logged(registry, PinChanged, 4)
    receiver.answer = lambda _: 200
    assert receiver.taken() == []
    await registry.client(events.resume_webhook(webhook))
    await telling.deliveries(registry, webhook, DeliveryState.DELIVERED, 4)
    assert telling.reasons([got.event for got in receiver.taken()], "a") == ["0", "1"]
    (entry, *_) = (await registry.client(access.audit(subject=f"webhook:{webhook}", actor="webhooks"))).items
    assert entry.action == "webhook.pause"
