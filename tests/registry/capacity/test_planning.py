"""Nodes, headroom and cost from one bench."""

import pytest

from registry.capacity import planning
from registry.capacity.planning import Need
from registry.contract.engines import BenchPoint, BenchReport, EngineReport
from registry.contract.recipes import Precision

DIGEST = "sha256-" + "1" * 64


def engine(target: str = "ort.cpu", batchable: bool = True, benched: bool = True) -> EngineReport:
    points = tuple(
        BenchPoint(rows=rows, p50_ms=took, p99_ms=took * 1.2, rows_per_s=rows / took * 1e3)
        for rows, took in ((1, 2.0), (4, 4.0), (16, 12.0))
    )
    bench = BenchReport(
        provider="CPUExecutionProvider",
        threads=1,
        points=points,
        source_points=points,
        speed_ratio=1,
        size_bytes=1,
        source_size_bytes=1,
        size_ratio=1,
        load_ms={},
        memory_bytes=1,
        pre_ms=0.2,
        post_ms=0.05,
    )
    return EngineReport(
        precision=Precision.FP32,
        target=target,
        digest=DIGEST,
        size=1,
        memory_bytes=1,
        key=DIGEST,
        tools={},
        gates=(),
        batchable=batchable,
        bench=bench if benched else None,
    )


def test_twice_the_peak_needs_twice_the_nodes_and_costs_the_same_a_request() -> None:
    small, big = (planning.of_engine(engine(), Need(peak, 20, 1.8), 2) for peak in (5_000, 10_000))
    assert small.nodes_needed is not None and big.nodes_needed is not None
    assert 2 * small.nodes_needed - 1 <= big.nodes_needed <= 2 * small.nodes_needed
    assert small.cost_per_million is not None
    assert small.cost_per_million == pytest.approx(1.8 * small.nodes_needed / (5_000 * 3600) * 1e6)
    assert small.cost_parts is not None
    assert small.cost_parts.total == pytest.approx(small.cost_per_million)
    assert small.cost_parts.pre / small.cost_parts.post == pytest.approx(4)
    assert (small.parts.pre, small.parts.post) == (0.2, 0.05)
    assert small.p99_ms <= 20


def test_an_engine_that_is_never_batched_carries_less() -> None:
    batched, alone = (planning.of_engine(engine(batchable=b), Need(100, 20), 1) for b in (True, False))
    assert alone.batch_rows == 1
    assert alone.rps_per_node < 0.8 * batched.rps_per_node


def test_a_limit_below_a_lone_request_is_told_as_such() -> None:
    found = planning.of_engine(engine(), Need(100, 2), 3)
    assert (found.nodes_needed, found.rps_per_node, found.cost_per_million) == (None, 0, None)
    assert "no number of nodes" in planning.sentence([found], Need(100, 2), 0)


def test_nodes_count_for_the_first_target_of_their_list_that_has_an_engine() -> None:
    listed = [
        ("ort.cpu.avx512_vnni", "ort.cpu"),
        ("ort.cpu",),
        ("openvino.cpu", "ort.cpu"),
        ("tensorrt.sm_90",),
    ]
    there = planning.targets_of_nodes(listed, [engine("ort.cpu"), engine("openvino.cpu")])
    assert there == {"ort.cpu": 2, "openvino.cpu": 1}


def test_an_engine_without_a_bench_is_no_answer() -> None:
    with pytest.raises(ValueError, match="never benched"):
        planning.of_engine(engine(benched=False), Need(1, 1), 1)
    assert "nothing tells" in planning.sentence([], Need(1, 1), 0)
