"""A swap fails no request, moves what waits, and is drained only when the old arm is really free."""

import asyncio
from dataclasses import replace
from typing import Any

from registry.contract.routes import ArmRole, RoutingUnit
from serving.control import Drained, EngineLost
from tests.serving import tiny_models
from tests.serving.gateway.conftest import EngineRun, Engines
from tests.serving.gateway.contracts import ADDER, CLASSIFIER, FAILING, SLOW, ArmSpec, EntrySpec, edges
from tests.serving.gateway.rig import Rig, problem

ROW: dict[str, tuple[str, list[Any]]] = {"x": ("FP32", [[1.0, 2.0, 3.0, 4.0]])}


async def test_requests_split_by_id_and_key(rig: Rig, classifier: str) -> None:
    arms = (
        ArmSpec("s", classifier, CLASSIFIER, share=5000),
        ArmSpec("c", classifier, CLASSIFIER, ArmRole.CANARY, 5000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms))
    got = [(await rig.classify(0, headers={"x-request-id": f"id-{n}"})) for n in range(40)]
    roles = [one.headers["x-slipway-role"] for one in got]
    assert 5 < roles.count("canary") < 35
    again = [(await rig.classify(0, headers={"x-request-id": f"id-{n}"})) for n in range(40)]
    assert [one.headers["x-slipway-role"] for one in again] == roles
    assert rig.outcomes("c")["ok"] == 2 * roles.count("canary")
    await rig.take(EntrySpec(arms, generation=2, unit=RoutingUnit(kind="key", header="X-User")))
    for user in range(6):
        answers = [await rig.classify(0, headers={"x-user": f"u{user}"}) for _ in range(4)]
        assert len({one.headers["x-slipway-arm"] for one in answers}) == 1


async def test_no_request_fails_over_many_swaps(rig: Rig, engines: Engines, classifier: str) -> None:
    other = engines.start(tiny_models.classifier(engines.folder / "other.onnx")).socket
    stable = ArmSpec("s", classifier, CLASSIFIER)
    canary = ArmSpec("c", other, CLASSIFIER, ArmRole.CANARY, 0, version="m@2@fp32")
    await rig.take(EntrySpec((stable, canary), edges=edges()))
    sent = answered = 0
    stop = False

    async def client() -> None:
        nonlocal sent, answered
        while not stop:
            sent += 1
            response = await rig.classify(1)
            assert response.status_code == 200, response.text
            answered += 1

    clients = [asyncio.create_task(client()) for _ in range(8)]
    generation = 1
    for share in (500, 5000, 9500, 0, 2500, 10_000, 0):
        generation += 1
        arms = (stable.having(10_000 - share), canary.having(share))
        await rig.take(EntrySpec(arms, generation=generation, edges=edges()))
        await asyncio.sleep(0.1)
        await rig.drained(generation)
    stop = True
    await asyncio.gather(*clients)
    counted = 0
    for number in range(1, generation + 1):
        for arm in ("s", "c"):
            outcomes = rig.outcomes(arm, number)
            assert not outcomes.keys() - {"ok"}
            counted += outcomes.get("ok", 0)
            assert rig.counters(arm, number).inflight == 0
    assert sent == answered == counted


async def test_waiting_work_is_given_to_the_new_route(rig: Rig, holdable: EngineRun, copier: str) -> None:
    """The canary holds one run; what waits behind it moves, and counts where it went."""
    stable = ArmSpec("s", copier, SLOW)
    canary = ArmSpec("c", holdable.socket, SLOW, ArmRole.CANARY, 10_000, version="m@2@fp32", max_rows=1)
    await rig.take(EntrySpec((stable.having(0), canary)))
    holdable.hold()
    tasks = [asyncio.create_task(rig.infer(ROW)) for _ in range(5)]
    await rig.inside("c", 5)
    await rig.take(EntrySpec((stable, canary.having(0, ArmRole.STANDBY)), generation=2))
    await rig.inside("c", 1)
    holdable.release()
    responses = await asyncio.gather(*tasks)
    assert [one.status_code for one in responses] == [200] * 5
    await rig.drained(2)
    assert rig.outcomes("c") == {"ok": 1}
    assert rig.outcomes("s", 2) == {"ok": 4}
    assert sorted(one.headers["x-slipway-version"] for one in responses) == ["m@1@fp32"] * 4 + ["m@2@fp32"]


async def test_drained_comes_after_the_last_answer_of_the_old_arm(
    rig: Rig, holdable: EngineRun, classifier: str
) -> None:
    old = ArmSpec("c", holdable.socket, SLOW)
    await rig.take(EntrySpec((old,)))
    holdable.hold()
    last = asyncio.create_task(rig.infer(ROW))
    await rig.inside("c", 1)
    await rig.take(
        EntrySpec((ArmSpec("s", classifier, CLASSIFIER), old.having(0, ArmRole.STANDBY)), generation=2)
    )
    assert (await rig.classify(0)).status_code == 200
    await rig.listen(0.2)
    assert not any(isinstance(message, Drained) and message.fence.generation == 2 for message in rig.said)
    assert not last.done()
    holdable.release()
    await rig.drained(2)
    assert rig.outcomes("c") == {"ok": 1}
    assert (await last).status_code == 200


async def test_what_runs_beyond_the_drain_limit_is_cut_and_answered_by_stable(
    rig: Rig, holdable: EngineRun, copier: str
) -> None:
    stable = ArmSpec("s", copier, SLOW)
    canary = ArmSpec("c", holdable.socket, SLOW, ArmRole.CANARY, 10_000, version="m@2@fp32")
    await rig.take(EntrySpec((stable.having(0), canary)))
    holdable.hold()
    held = asyncio.create_task(rig.infer(ROW))
    await rig.inside("c", 1)
    await rig.take(EntrySpec((stable, canary.having(0, ArmRole.STANDBY)), generation=2, drain_limit_s=0.3))
    response = await held
    assert response.status_code == 200
    assert response.headers["x-slipway-role"] == "stable"
    assert "x-slipway-fallback" in response.headers
    await rig.drained(2)
    assert rig.outcomes("c") == {"fallback": 1}


async def test_a_failing_canary_is_answered_by_stable_and_counted(
    rig: Rig, failing: str, engines: Engines
) -> None:
    large = engines.start(tiny_models.failing_on_value(engines.folder / "large.onnx", rows=100)).socket
    arms = (
        ArmSpec("s", large, FAILING, share=0),
        ArmSpec("c", failing, FAILING, ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms))
    response = await rig.infer({"index": ("INT64", [[50]])})
    assert response.status_code == 200
    assert response.json()["outputs"][0]["data"] == [50.0]
    assert response.headers["x-slipway-role"] == "stable"
    assert rig.outcomes("c") == {"fallback": 1}
    both = await rig.infer({"index": ("INT64", [[500]])})
    assert both.status_code == 500
    assert "engine failed" in problem(both)["detail"]
    assert rig.outcomes("c") == {"fallback": 1, "engine_error": 1}
    assert rig.outcomes("s") == {}


async def test_a_canary_that_refuses_what_stable_takes_is_in_error(
    rig: Rig, classifier: str, adder: str
) -> None:
    """Its contract lost an input: a broken promise to callers, not their bad input."""
    arms = (
        ArmSpec("s", classifier, CLASSIFIER, share=0),
        ArmSpec("c", adder, ADDER, ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms))
    assert (await rig.classify(0)).status_code == 200
    assert rig.outcomes("c") == {"fallback": 1}
    neither = await rig.infer({"y": ("FP32", [[1.0]])})
    assert neither.status_code == 422
    assert rig.outcomes("c") == {"fallback": 1, "rejected": 1}


async def test_a_killed_engine_is_told_and_its_requests_wait_for_the_next_one(
    rig: Rig, engines: Engines, copier: str
) -> None:
    mortal = engines.start(tiny_models.slow(engines.folder / "mortal.onnx", 1))
    await rig.take(EntrySpec((ArmSpec("s", mortal.socket, SLOW),)))
    mortal.hold()
    held = asyncio.create_task(rig.infer(ROW))
    await rig.inside("s", 1)
    mortal.kill()
    message = await rig.hear(lambda one: isinstance(one, EngineLost))
    assert isinstance(message, EngineLost) and message.reason
    assert (await rig.http.get("/readyz")).status_code == 503
    await rig.take(EntrySpec((ArmSpec("s", None, SLOW, share=0),)))
    loading = await rig.infer(ROW)
    assert loading.status_code == 503
    assert loading.headers["retry-after"] == "3"
    assert not held.done()
    await rig.take(EntrySpec((ArmSpec("s", copier, SLOW),)))
    assert (await held).status_code == 200
    assert rig.outcomes("s") == {"ok": 1}


async def test_a_withdrawn_canary_counts_its_waiting_requests_as_its_errors(
    rig: Rig, holdable: EngineRun, copier: str
) -> None:
    """The same generation, and the canary's engine is gone: stable answers, and the canary is to blame."""
    stable = ArmSpec("s", copier, SLOW)
    canary = ArmSpec("c", holdable.socket, SLOW, ArmRole.CANARY, 10_000, version="m@2@fp32", max_rows=1)
    await rig.take(EntrySpec((stable.having(0), canary)))
    holdable.hold()
    tasks = [asyncio.create_task(rig.infer(ROW)) for _ in range(4)]
    await rig.inside("c", 4)
    await rig.take(EntrySpec((stable, replace(canary, socket=None, share=0))))
    responses = await asyncio.gather(*tasks)
    assert [one.status_code for one in responses] == [200] * 4
    assert rig.outcomes("c") == {"fallback": 4}
    assert rig.outcomes("s") == {}


async def test_an_empty_route_answers_503(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    await rig.take(EntrySpec((), generation=2))
    await rig.drained(2)
    response = await rig.classify(0)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "3"


async def test_a_dead_socket_never_holds_a_swap(rig: Rig, classifier: str) -> None:
    stable = ArmSpec("s", classifier, CLASSIFIER)
    dead = ArmSpec("c", "/nonexistent/engine.sock", CLASSIFIER, ArmRole.CANARY, 0, version="m@2@fp32")
    async with asyncio.timeout(3):
        await rig.take(EntrySpec((stable, dead)))
    assert (await rig.classify(0)).status_code == 200
