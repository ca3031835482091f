"""Bad input gets a clear error that says how to mend it, is never a 5xx, and is no error of the arm."""

import gzip
import json
from typing import Any

import pytest

from tests.serving.gateway.contracts import ADDER, CLASSIFIER, ArmSpec, EntrySpec, edges
from tests.serving.gateway.rig import Rig, gateway, problem

GOOD = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 0, 0, 0]}

CASES: list[tuple[str, Any, int, str]] = [
    ("not JSON", b"{nonsense", 400, "JSON"),
    ("not an object", [1, 2], 400, "object"),
    ("no inputs", {}, 400, "inputs"),
    (
        "NaN is no JSON",
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[NaN,0,0,0]}]}',
        400,
        "JSON",
    ),
    ("wrong name", {"inputs": [GOOD | {"name": "y"}]}, 422, "x"),
    ("a list for a name", {"inputs": [GOOD | {"name": []}]}, 422, "x"),
    ("an object for a name", {"inputs": [GOOD | {"name": {}}]}, 422, "x"),
    ("a list for an output", {"inputs": [GOOD], "outputs": [{"name": []}]}, 422, "scores"),
    ("a shape beyond all memory", {"inputs": [GOOD | {"shape": [2**62, 4], "data": []}]}, 422, "FP32"),
    ("a shape beyond 64 bits", {"inputs": [GOOD | {"shape": [2**63, 4], "data": []}]}, 422, "FP32"),
    ("a truth for a size", {"inputs": [GOOD | {"parameters": {"binary_data_size": True}}]}, 400, "binary"),
    ("name twice", {"inputs": [GOOD, GOOD]}, 422, "x"),
    ("wrong dtype", {"inputs": [GOOD | {"datatype": "INT64"}]}, 422, "FP32"),
    ("wrong rank", {"inputs": [GOOD | {"shape": [4]}]}, 422, "FP32[batch, 4]"),
    ("wrong size", {"inputs": [GOOD | {"shape": [1, 5], "data": [0] * 5}]}, 422, "FP32[batch, 4]"),
    ("shape of texts", {"inputs": [GOOD | {"shape": ["1", 4]}]}, 422, "FP32[batch, 4]"),
    ("data and shape differ", {"inputs": [GOOD | {"data": [0, 0, 0]}]}, 422, "4 elements"),
    ("text for numbers", {"inputs": [GOOD | {"data": ["1", "2", "3", "4"]}]}, 422, "FP32"),
    ("null", {"inputs": [GOOD | {"data": [None, 0, 0, 0]}]}, 422, "null"),
    ("ragged", {"inputs": [GOOD | {"shape": [2, 4], "data": [[0] * 4, [0] * 3]}]}, 422, "ragged"),
    ("beyond FP32", {"inputs": [GOOD | {"data": [1e300, 0, 0, 0]}]}, 422, "beyond"),
    ("booleans", {"inputs": [GOOD | {"data": [True, False, True, True]}]}, 422, "booleans"),
    ("empty batch", {"inputs": [GOOD | {"shape": [0, 4], "data": []}]}, 422, "row"),
    ("no data", {"inputs": [{k: v for k, v in GOOD.items() if k != "data"}]}, 422, "data"),
    ("too many rows", {"inputs": [GOOD | {"shape": [33, 4], "data": [0] * 132}]}, 422, "32 rows"),
    ("unknown output", {"inputs": [GOOD], "outputs": [{"name": "no"}]}, 422, "scores"),
    (
        "binary size without bytes",
        {"inputs": [GOOD | {"parameters": {"binary_data_size": 16}}]},
        400,
        "binary",
    ),
]


async def test_bad_bodies(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),), edges=edges()))
    for name, body, status, word in CASES:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await rig.http.post("/v2/models/m/infer", content=content)
        assert response.status_code == status, name
        assert word in problem(response)["detail"] + problem(response)["hint"], name
        assert response.headers["x-request-id"] == problem(response)["request_id"]
    assert rig.outcomes("s") == {"rejected": len(CASES)}
    assert (await rig.classify(0)).status_code == 200


async def test_bad_binary_parts(rig: Rig, adder: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", adder, ADDER),)))
    head = json.dumps(
        {
            "inputs": [
                {"name": n, "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
                for n in ("a", "b")
            ]
        }
    ).encode()
    nan = b"\x00\x00\xc0\x7f" * 2
    infinite = b"\x00\x00\x80\x7f" * 2 + b"\x00\x00\x80\xff" * 2
    cases = [
        (head + bytes(16), str(len(head) + 99), 400, "JSON part"),
        (head + bytes(16), "x", 400, "JSON part"),
        (head + bytes(16), "9" * 5000, 400, "JSON part"),
        (head + bytes(12), str(len(head)), 400, "binary_data_size"),
        (head + bytes(20), str(len(head)), 400, "no input"),
        (head + nan + bytes(8), str(len(head)), 422, "NaN"),
        (head + infinite, str(len(head)), 422, "Infinity"),
        (head.replace(b"[1, 2]", b"[1, 3]") + bytes(16), str(len(head)), 422, "12 bytes"),
        (head.replace(b"[1, 2]", b"[2, 2]", 1) + bytes(16), str(len(head)), 422, "bytes"),
    ]
    for body, length, status, word in cases:
        response = await rig.http.post(
            "/v2/models/m/infer", content=body, headers={"inference-header-content-length": length}
        )
        assert response.status_code == status, body
        assert word in problem(response)["detail"] + problem(response)["hint"], body


async def test_rows_and_named_axes_must_agree(rig: Rig, adder: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", adder, ADDER),)))
    rows = await rig.infer({"a": ("FP32", [[1.0, 2.0]]), "b": ("FP32", [[1.0, 2.0], [3.0, 4.0]])})
    sizes = await rig.infer({"a": ("FP32", [[1.0, 2.0]]), "b": ("FP32", [[1.0, 2.0, 3.0]])})
    assert rows.status_code == sizes.status_code == 422
    assert "batch" in problem(rows)["detail"]
    assert "size" in problem(sizes)["detail"]


async def test_addresses(rig: Rig, classifier: str) -> None:
    nowhere = await rig.http.post("/v2/models/m/infer", json={"inputs": [GOOD]})
    assert nowhere.status_code == 503
    assert nowhere.headers["retry-after"] == "1"
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    unknown = await rig.http.post("/v2/models/other/infer", json={"inputs": [GOOD]})
    assert unknown.status_code == 404
    assert "m" in problem(unknown)["hint"]
    version = await rig.http.post("/v2/models/m/versions/7/infer", json={"inputs": [GOOD]})
    assert version.status_code == 404
    assert "1@fp32" in problem(version)["hint"]
    assert (await rig.http.get("/v2/models/m/infer")).status_code == 405
    assert (await rig.http.get("/v2/models/m/infer")).headers["allow"] == "POST"
    for path in (
        "/",
        "/v2/models",
        "/v2/models//infer",
        "/v2/models/m/versions//infer",
        "/v2/models/m/other",
    ):
        assert (await rig.http.post(path, json={})).status_code == 404, path
    assert (await rig.http.head("/healthz")).status_code == 200


async def test_time_outs_that_are_none(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    for value in ("soon", "0", "-5", "1.5", ""):
        response = await rig.classify(0, headers={"x-request-timeout-ms": value})
        assert response.status_code == 422, value
        assert "milliseconds" in problem(response)["detail"]
    for value in ("60000", "9" * 400):
        response = await rig.classify(0, headers={"x-request-timeout-ms": value})
        assert response.status_code == 200, "a longer wish is cut to the longest"


async def test_request_ids_that_could_split_a_header_are_replaced(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    for value in (b"x" * 129, b"\xff\xfe", b""):
        response = await rig.http.get("/healthz", headers=[(b"x-request-id", value)])
        assert response.status_code == 200
        assert response.headers["x-request-id"].encode() != value


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_and_compressed_bodies(classifier: str, chunked: bool) -> None:
    environment = {"SLIPWAY_GATEWAY_BODY_LIMIT_BYTES": "4096", "SLIPWAY_GATEWAY_JSON_LIMIT_BYTES": "2048"}

    async def pieces(size: int):  # type: ignore[no-untyped-def]
        for _ in range(size // 256):
            yield b" " * 256

    async with gateway(environment) as rig:
        await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
        large = await rig.http.post("/v2/models/m/infer", content=pieces(8192) if chunked else b" " * 8192)
        assert large.status_code == 413
        assert "4096" in problem(large)["detail"]
        long_json = await rig.http.post(
            "/v2/models/m/infer",
            content=pieces(3072) if chunked else b" " * 3072,
            headers={"content-type": "application/json"},
        )
        assert long_json.status_code == 413
        assert "binary" in problem(long_json)["hint"]
        packed = await rig.http.post(
            "/v2/models/m/infer", content=gzip.compress(b"{}"), headers={"content-encoding": "gzip"}
        )
        assert packed.status_code == 415
        assert (await rig.classify(0)).status_code == 200
