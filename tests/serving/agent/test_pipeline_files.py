"""Files that a version's pipeline reads: on the node before its engine serves, kept, and sound."""

from registry.contract.nodes import AssignedArm, SlotPhase
from registry.contract.routes import ArmRole
from registry.contract.versions import FileEntry
from serving.agent.actions import Evict, Fetch
from serving.agent.decide import UNUSED_KEPT
from serving.agent.snapshot import SlotKey
from tests.serving.agent.making import arm, arm_id, assignment, digest_of, engine, fragment
from tests.serving.agent.test_engines import KEY, Bench, bench, model
from tests.serving.agent.world import World

__all__ = ["bench", "model"]

TOKENIZER = b"a tokenizer"
FILE = FileEntry(path="text/tokenizer.json", digest=digest_of(TOKENIZER), size=len(TOKENIZER))


def reading(number: int, share: int = 10_000) -> AssignedArm:
    return arm(number, ArmRole.STABLE, share).model_copy(update={"files": (FILE,)})


def test_an_engine_waits_for_the_files_of_its_pipeline() -> None:
    world = World()
    world.assign(assignment(fragment(1, [reading(1)])))
    world.settle()
    world.fetched(engine(1).digest)
    world.settle()
    assert not world.slots
    assert [one.blob.digest for one in world.done if isinstance(one, Fetch)] == [
        engine(1).digest,
        FILE.digest,
    ]
    world.fetched(FILE.digest)
    world.settle()
    world.loaded(SlotKey("prod/m", arm_id(1)))
    world.settle()
    (entry,) = world.published["prod/m"].entry.arms
    assert (entry.share, entry.files) == (10_000, {FILE.path: FILE.digest})


def test_files_of_held_arms_are_never_evicted() -> None:
    world = World()
    world.assign(assignment(fragment(1, [reading(1)])))
    world.everything_works(rounds=5)
    world.disk |= {f"sha256-{at:064x}" for at in range(500, 500 + UNUSED_KEPT + 4)}
    world.settle()
    evicted = [one.digest for one in world.done if isinstance(one, Evict)]
    assert len(evicted) == 4
    assert FILE.digest in world.disk


async def test_a_file_that_changed_on_disk_is_fetched_again(bench: Bench, model: bytes) -> None:
    stored = bench.store(model).model_copy(update={"files": (FILE,)})
    path = bench.state.engine(FILE.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"another")
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bool(bench.damaged))
    assert bench.damaged == [FILE.digest]
    path.write_bytes(TOKENIZER)
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bench.is_in(SlotPhase.READY))
