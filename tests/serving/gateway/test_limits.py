"""Deadlines, shed load, callers who leave, and leaving itself."""

import asyncio
import json
import signal

from registry.contract.routes import ArmRole
from serving.control import EngineLost
from tests.serving.gateway.conftest import EngineRun
from tests.serving.gateway.contracts import CLASSIFIER, SLOW, ArmSpec, EntrySpec
from tests.serving.gateway.rig import Rig, gateway, problem

ROW = {"x": ("FP32", [[1.0, 2.0, 3.0, 4.0]])}


async def test_the_deadline_counts_the_queue_and_names_the_layer(rig: Rig, holdable: EngineRun) -> None:
    await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW, max_rows=1),)))
    holdable.hold()
    ran = asyncio.create_task(rig.infer(ROW, headers={"x-request-timeout-ms": "100"}))
    await rig.inside("s", 1)
    queued = await rig.infer(ROW, headers={"x-request-timeout-ms": "100"})
    assert queued.status_code == (await ran).status_code == 504
    assert problem(queued)["layer"] == "queue"
    assert problem(await ran)["layer"] == "engine"
    holdable.release()
    assert (await rig.infer(ROW)).status_code == 200
    assert rig.outcomes("s") == {"ok": 1, "timeout": 2}


async def test_a_full_queue_answers_503_with_retry_after(holdable: EngineRun) -> None:
    async with gateway({"SLIPWAY_GATEWAY_QUEUE_ROWS": "4"}) as rig:
        await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW, max_rows=1),)))
        holdable.hold()
        first = asyncio.create_task(rig.infer(ROW))
        await rig.inside("s", 1)
        others = [asyncio.create_task(rig.infer(ROW)) for _ in range(7)]
        await rig.inside("s", 5)
        async with asyncio.timeout(60):
            while sum(one.done() for one in others) < 3:
                await asyncio.sleep(0.01)
        shed = next(one for one in others if one.done()).result()
        assert shed.status_code == 503
        assert int(shed.headers["retry-after"]) >= 1
        assert "4 may" in problem(shed)["detail"]
        holdable.release()
        codes = [one.status_code for one in await asyncio.gather(first, *others)]
        assert (codes.count(200), codes.count(503)) == (5, 3)
        assert rig.outcomes("s") == {"ok": 5, "shed": 3}


async def test_a_caller_who_leaves_is_not_computed(rig: Rig, holdable: EngineRun) -> None:
    await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW, max_rows=1),)))
    holdable.hold()
    running = asyncio.create_task(rig.infer(ROW))
    await rig.inside("s", 1)
    body = json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    ).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(head + body)
        await rig.inside("s", 2)
        writer.close()
        await rig.inside("s", 1)
    holdable.release()
    assert (await running).status_code == 200
    assert (await rig.infer(ROW)).status_code == 200
    assert rig.outcomes("s") == {"ok": 2, "cancelled": 3}
    assert rig.counters("s").fields["engine_us.1"].sum() == 2


async def test_sigterm_finishes_what_is_inside(rig: Rig, holdable: EngineRun) -> None:
    await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW),)))
    holdable.hold()
    held = asyncio.create_task(rig.infer(ROW))
    await rig.inside("s", 1)
    rig.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    holdable.release()
    response = await held
    assert response.status_code == 200
    assert response.headers["connection"] == "close"
    async with asyncio.timeout(60):
        assert await rig.process.wait() == 0
    assert rig.outcomes("s") == {"ok": 1}


async def test_a_draining_node_is_unready_and_still_answers(rig: Rig, classifier: str) -> None:
    entry = EntrySpec((ArmSpec("s", classifier, CLASSIFIER),))
    await rig.take(entry)
    assert (await rig.http.get("/readyz")).status_code == 200
    await rig.take(entry, draining=True)
    unready = await rig.http.get("/v2/health/ready")
    assert unready.status_code == 503
    assert "draining" in problem(unready)["detail"]
    assert (await rig.classify(0)).status_code == 200
    assert (await rig.http.get("/healthz")).status_code == 200


async def test_the_worker_leaves_with_its_agent(rig: Rig) -> None:
    rig.writer.close()
    async with asyncio.timeout(60):
        assert await rig.process.wait() == 0


async def test_who_was_inside_a_killed_worker_has_died(rig: Rig, holdable: EngineRun) -> None:
    await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW),)))
    done = await rig.infer(ROW)
    holdable.hold()
    held = [asyncio.create_task(rig.infer(ROW)) for _ in range(2)]
    await rig.inside("s", 2)
    await rig.kill()
    results = await asyncio.gather(*held, return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)
    assert done.status_code == 200
    fields = rig.counters("s").settled().fields
    assert int(fields["outcome.died"][0]) == 2
    assert int(fields["assigned"][0]) == 3


async def test_a_hung_engine_turns_the_node_red_and_a_canary_never_does(
    rig: Rig, holdable: EngineRun, copier: str
) -> None:
    stable = ArmSpec("s", copier, SLOW, share=5000)
    canary = ArmSpec("c", holdable.socket, SLOW, ArmRole.CANARY, 5000, version="m@2@fp32")
    await rig.take(EntrySpec((stable, canary)))
    holdable.hold()
    ready = await rig.http.get("/readyz")
    assert ready.status_code == 200
    assert "m@2@fp32" in ready.json()["notes"][0]
    await rig.take(EntrySpec((canary.having(10_000, ArmRole.STABLE),), generation=2))
    async with asyncio.timeout(60):
        while (await rig.http.get("/readyz")).status_code != 503:
            await asyncio.sleep(0.1)
    holdable.release()
    async with asyncio.timeout(60):
        while (await rig.http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.1)


async def test_a_run_beyond_its_hard_limit_is_told_to_the_agent(holdable: EngineRun) -> None:
    async with gateway({"SLIPWAY_GATEWAY_RUN_LIMIT_S": "0.2"}) as rig:
        await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW),)))
        holdable.hold()
        response = await rig.infer(ROW)
        assert response.status_code == 504
        assert problem(response)["layer"] == "engine"
        message = await rig.hear(lambda one: isinstance(one, EngineLost))
        assert isinstance(message, EngineLost) and "longer than 0.2 s" in message.reason
