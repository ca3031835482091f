"""What a caller gets for a good request: the right answer, its headers, and one counted outcome."""

import json

import numpy as np

from registry.contract.routes import ArmRole
from tests.serving.gateway.contracts import (
    ADDER,
    CLASSIFIER,
    LABELS,
    ArmSpec,
    EntrySpec,
    arm_id,
    edges,
    window,
)
from tests.serving.gateway.rig import Rig


async def test_json_tensors_are_answered_and_counted(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),), edges=edges()))
    response = await rig.classify(0, 1, 1)
    assert response.status_code == 200
    document = response.json()
    assert document["model_name"] == "m"
    assert document["model_version"] == "1@fp32"
    scores = np.array(document["outputs"][0]["data"]).reshape(document["outputs"][0]["shape"])
    assert scores.argmax(axis=1).tolist() == [0, 1, 1]
    assert rig.outcomes("s") == {"ok": 1}
    fields = rig.counters("s").fields
    assert fields["observable.label"].tolist() == [1, 2, 0, 0]
    assert fields["observable.score"].sum() == 3
    assert fields["total_us"].sum() == 1
    assert fields["engine_us.4"].sum() == 1
    assert rig.counters("s").inflight == 0


async def test_every_answer_says_who_gave_it(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    response = await rig.classify(0, headers={"x-request-id": "mine-1"})
    got = response.headers
    assert got["x-request-id"] == "mine-1"
    assert got["x-slipway-deployment"] == "test/m"
    assert got["x-slipway-version"] == "m@1@fp32"
    assert got["x-slipway-arm"] == arm_id("s")
    assert got["x-slipway-engine"].startswith("sha256-")
    assert got["x-slipway-role"] == "stable"
    layers = [part.split(";")[0] for part in got["server-timing"].split(", ")]
    assert layers == ["access", "pre", "queue", "engine", "post"]
    first, second = (
        (await rig.classify(0)).headers["x-request-id"],
        (await rig.classify(0)).headers["x-request-id"],
    )
    assert first != second


async def test_binary_tensors_in_and_out(rig: Rig, adder: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", adder, ADDER),)))
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    head = json.dumps(
        {
            "inputs": [
                {"name": n, "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}}
                for n in ("b", "a")
            ],
            "outputs": [{"name": "sum", "parameters": {"binary_data": True}}],
        }
    ).encode()
    response = await rig.http.post(
        "/v2/models/m/infer",
        content=head + (10 * a).tobytes() + a.tobytes(),
        headers={"inference-header-content-length": str(len(head))},
    )
    assert response.status_code == 200
    size = int(response.headers["inference-header-content-length"])
    document = json.loads(response.content[:size])
    assert document["outputs"][0]["parameters"] == {"binary_data_size": 24}
    got = np.frombuffer(response.content[size:], dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(got, 11 * a + 1)


async def test_large_tensors_travel_whole(rig: Rig, adder: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", adder, ADDER),)))
    a = np.random.default_rng(1).standard_normal((4, 100_000)).astype(np.float32)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": n,
                    "datatype": "FP32",
                    "shape": list(a.shape),
                    "parameters": {"binary_data_size": a.nbytes},
                }
                for n in ("a", "b")
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    response = await rig.http.post(
        "/v2/models/m/infer",
        content=head + a.tobytes() + a.tobytes(),
        headers={"inference-header-content-length": str(len(head))},
    )
    assert response.status_code == 200
    size = int(response.headers["inference-header-content-length"])
    np.testing.assert_array_equal(
        np.frombuffer(response.content[size:], dtype=np.float32).reshape(a.shape), a + a + 1
    )


async def test_predict_of_raw_bytes(rig: Rig, window_engine: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", window_engine, window()),), edges=edges(("a", "b", "c", "d"))))
    response = await rig.http.post("/v2/models/m/predict", content=b"hello, this is a small file")
    assert response.status_code == 200
    answer = response.json()["answer"]
    assert answer["label"] in "abcd"
    assert 0 <= answer["score"] <= 1
    assert rig.counters("s").fields["observable.label"].sum() == 1


async def test_predict_of_json_rows_without_pre_steps(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    response = await rig.http.post("/v2/models/m/predict", json={"x": [0, 1, 0, 0]})
    assert response.json()["answer"]["label"] == LABELS[1]


async def test_metadata_and_health(rig: Rig, classifier: str) -> None:
    assert (await rig.http.get("/v2/health/live")).status_code == 200
    assert (await rig.http.get("/v2/health/ready")).status_code == 503
    await rig.take(
        EntrySpec(
            (
                ArmSpec("s", classifier, CLASSIFIER),
                ArmSpec("c", classifier, CLASSIFIER, ArmRole.STANDBY, 0, version="m@2@int8-static"),
            )
        )
    )
    assert (await rig.http.get("/readyz")).status_code == 200
    assert (await rig.http.get("/v2/models/m/ready")).status_code == 200
    document = (await rig.http.get("/v2/models/m")).json()
    assert document["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert document["versions"] == ["1@fp32", "2@int8-static"]
    assert (await rig.http.get("/v2")).json()["extensions"] == ["binary_tensor_data"]
    versions = [
        (await rig.http.get(f"/v2/models/m/versions/{v}")).status_code for v in ("2", "2@int8-static", "9")
    ]
    assert versions == [200, 200, 404]
    assert (await rig.http.get("/v2/models/m/versions/2/ready")).status_code == 200


async def test_a_named_version_answers_and_is_counted_apart(rig: Rig, classifier: str) -> None:
    await rig.take(
        EntrySpec(
            (
                ArmSpec("s", classifier, CLASSIFIER),
                ArmSpec("c", classifier, CLASSIFIER, ArmRole.STANDBY, 0, version="m@2@fp32"),
            )
        )
    )
    by_header = await rig.classify(0, headers={"x-slipway-version": "2"})
    by_path = await rig.infer({"x": ("FP32", [[1.0, 0.0, 0.0, 0.0]])}, path="m/versions/2@fp32")
    assert by_header.headers["x-slipway-version"] == by_path.headers["x-slipway-version"] == "m@2@fp32"
    assert rig.outcomes("c") == {}
    assert rig.counters("c").explicit == 2
    assert rig.counters("c").fields["total_us"].sum() == 0


async def test_metrics_are_of_the_whole_node(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    await rig.classify(0)
    text = (await rig.http.get("/metrics")).text
    line = (
        f'slipway_requests_total{{deployment="test/m",arm="{arm_id("s")}",version="m@1@fp32",outcome="ok"}} 1'
    )
    assert line in text.splitlines()
    assert "slipway_request_seconds_count" in text
