"""The lineage graph: who came of whom, in both directions, over everything that is registered."""

import pytest

from registry.client import ApiError, builds, lineage, versions
from registry.contract.builds import BuildCreate, EngineWrite, TaskFinish
from registry.contract.lineage import Direction, LineageGraph, NodeKind
from registry.contract.recipes import Precision, Recipe
from registry.contract.tokens import Role
from registry.contract.versions import DatasetRef, Lineage
from tests.registry.conftest import Registry
from tests.registry.support import (
    claimed,
    digest_of,
    engine_report,
    make_dataset,
    queued,
    ready_version,
    run_sql,
    stored,
)


async def family(registry: Registry) -> str:
    """train@1 and commit 4f1e2d → animals@1 → animals@2 (commit 4f1e99) → build → engine → prod/zoo#1, the
    build calibrated with cal@1 and validated with val@1. Gives the build's id."""
    for name, kind in (("train", "training"), ("cal", "calibration"), ("val", "validation")):
        await make_dataset(registry, name, kind)  # type: ignore[arg-type]
    data = DatasetRef(name="train", version=1)
    await ready_version(registry, lineage=Lineage(commit="4f1e2d", training_run="run-1", training_data=data))
    await ready_version(registry, lineage=Lineage(commit="4f1e99", parent_version=1))
    recipe = Recipe(
        precisions=(Precision.INT8_STATIC,),
        calibration=DatasetRef(name="cal", version=1),
        validation=DatasetRef(name="val", version=1),
    )
    build = await registry.client(builds.create(BuildCreate(version="animals@2", recipe=recipe)))
    (task,) = await queued(registry, "build")
    lease = await claimed(registry.client, task)
    content = b"an engine"
    await stored(registry, content)
    report = EngineWrite(fence=lease.fence, engine=engine_report(content, Precision.INT8_STATIC))
    await registry.client(builds.write_engine(build.id, report))
    await registry.client(builds.finish(build.id, TaskFinish(fence=lease.fence)))
    await _released(registry, digest_of(content))
    return build.id


async def _released(registry: Registry, engine: str) -> None:
    """What a release leaves behind: an arm and its row."""
    await run_sql(
        registry,
        """INSERT INTO arms (id, version_id, precision, engines, pipeline, proven)
           SELECT 'arm-1', id, 'int8-static', jsonb_build_object('ort.cpu', %s::text), 'p', true
           FROM versions WHERE number = 2""",
        engine,
    )
    await run_sql(
        registry,
        """INSERT INTO deployments (id, environment, name, model, selector, unit, policy, generation,
               last_release, pinned, pin_reason, created_by)
           VALUES ('dep_1', 'prod', 'zoo', 'animals', '{}', '{}', '{}', 1, 1, false, '', 'me')""",
    )
    await run_sql(
        registry,
        """INSERT INTO releases (id, deployment_id, deployment, number, arm_id, policy, plan, salt, hold,
               step, guards, laggards, left_out, controller_fence, phase, phase_reason, created_by)
           VALUES ('rel_1', 'dep_1', 'prod/zoo', 1, 'arm-1', '{}', '[]', '', '', 0, '[]', '[]', '[]', 0,
               'completed', '', 'me')""",
    )


def refs(graph: LineageGraph) -> dict[str, int]:
    """Depths by ref; builds and engines under their kind, as their ids differ each time."""
    kinds = (NodeKind.BUILD, NodeKind.ENGINE)
    return {node.kind if node.kind in kinds else node.ref: node.depth for node in graph.nodes}


async def test_the_whole_family_from_its_middle(registry: Registry) -> None:
    build = await family(registry)
    graph = await registry.client(lineage.graph("version:animals@2"))
    assert refs(graph) == {
        "version:animals@2": 0,
        "commit:4f1e99": -1,
        "version:animals@1": -1,
        "build": 1,
        "commit:4f1e2d": -2,
        "run:run-1": -2,
        "dataset:train@1": -2,
        "engine": 2,
        "release:prod/zoo#1": 3,
    }
    engine = next(node for node in graph.nodes if node.kind is NodeKind.ENGINE)
    assert (engine.name, engine.phase) == ("animals@2@int8-static for ort.cpu", "releasable")
    assert {(edge.source, edge.relation, edge.target) for edge in graph.edges} == {
        ("commit:4f1e2d", "source", "version:animals@1"),
        ("run:run-1", "source", "version:animals@1"),
        ("dataset:train@1", "training", "version:animals@1"),
        ("version:animals@1", "parent", "version:animals@2"),
        ("commit:4f1e99", "source", "version:animals@2"),
        ("version:animals@2", "built", f"build:{build}"),
        (f"build:{build}", "made", engine.ref),
        (engine.ref, "released", "release:prod/zoo#1"),
    }
    assert (graph.root, graph.nodes[0].ref, graph.truncated) == (*["version:animals@2"] * 2, False)
    await _questions(registry, build, engine.ref)
    await _limits(registry)


async def _questions(registry: Registry, build: str, engine: str) -> None:
    async def ask(of: str, direction: Direction, *kinds: NodeKind) -> list[str]:
        return [node.ref for node in (await registry.client(lineage.graph(of, direction, kinds))).nodes]

    down, up = Direction.DESCENDANTS, Direction.ANCESTORS
    assert await ask("dataset:cal@1", down, NodeKind.RELEASE) == ["release:prod/zoo#1"]
    assert await ask("dataset:val@1", down, NodeKind.BUILD) == [f"build:{build}"]
    assert await ask("commit:4f1e2d", down, NodeKind.BUILD, NodeKind.ENGINE) == [f"build:{build}", engine]
    assert await ask("commit:4f1e9", down, NodeKind.VERSION) == ["version:animals@2"]
    assert await ask("run:run-1", down, NodeKind.VERSION) == ["version:animals@1", "version:animals@2"]
    sets = ["dataset:cal@1", "dataset:val@1", "dataset:train@1"]
    assert await ask("release:prod/zoo#1", up, NodeKind.DATASET) == sets
    assert await ask(engine, up, NodeKind.COMMIT) == ["commit:4f1e99", "commit:4f1e2d"]
    assert await ask("dataset:train@1", up) == ["dataset:train@1"]


async def _limits(registry: Registry) -> None:
    near = await registry.client(lineage.graph("commit:4f1e2d", Direction.DESCENDANTS, depth=2))
    assert (list(refs(near)), near.truncated) == (
        ["commit:4f1e2d", "version:animals@1", "version:animals@2"],
        True,
    )
    few = await registry.client(lineage.graph("commit:4f1e2d", Direction.DESCENDANTS, limit=2))
    assert (len(few.nodes), few.truncated) == (2, True)
    exact = await registry.client(lineage.graph("commit:4f1e2d", Direction.DESCENDANTS, depth=5))
    assert (len(exact.nodes), exact.truncated) == (6, False)
    stranger = await registry.as_role(Role.VIEWER, models=("plants",))
    with pytest.raises(ApiError, match="is limited to the models plants"):
        await stranger(lineage.graph("version:animals@2"))
    seen = await stranger(lineage.graph("dataset:train@1"))
    assert list(refs(seen)) == ["dataset:train@1"]


async def test_a_circle_ends(registry: Registry) -> None:
    await ready_version(registry)
    await ready_version(registry, lineage=Lineage(parent_version=1))
    await run_sql(
        registry, "UPDATE versions SET lineage = lineage || '{\"parent_version\": 2}' WHERE number = 1"
    )
    graph = await registry.client(lineage.graph("version:animals@1", Direction.DESCENDANTS))
    assert refs(graph) == {"version:animals@1": 0, "version:animals@2": 1}
    assert {(edge.source, edge.target) for edge in graph.edges} == {
        ("version:animals@1", "version:animals@2"),
        ("version:animals@2", "version:animals@1"),
    }
    assert not graph.truncated


WRONG = [
    ("animals@1", 422, "is no node of the lineage graph"),
    ("version:", 422, "names no version"),
    ("version:animals", 422, "is not a version"),
    ("version:animals@7", 404, "there is no version animals@7"),
    ("dataset:cal@9", 404, "there is no dataset cal@9"),
    ("commit:4f1", 404, "there is no commit 4f1"),
    ("commit:%", 404, "there is no commit %"),
    ("run:x", 404, "there is no run x"),
    ("build:bld_1", 404, "there is no build bld_1"),
    ("release:prod/zoo", 422, "is no release"),
    ("release:zoo#1", 422, "is not a deployment"),
    ("release:prod/zoo#2", 404, "there is no release prod/zoo#2"),
]


async def test_a_wrong_root_is_told(registry: Registry) -> None:
    for of, status, said in WRONG:
        with pytest.raises(ApiError, match=said) as refused:
            await registry.client(lineage.graph(of))
        assert refused.value.status == status, of


async def test_a_short_commit_that_means_several_is_refused(registry: Registry) -> None:
    await ready_version(registry, lineage=Lineage(commit="4f1e2d"))
    await ready_version(registry, lineage=Lineage(commit="4f1e99"))
    with pytest.raises(ApiError, match="2 commits begin with 4f1e: 4f1e2d, 4f1e99"):
        await registry.client(lineage.graph("commit:4f1e"))
    assert (await registry.client(versions.search("commit=4f1e99"))).items[0].number == 2
