"""What a release, a rollback and its nodes tell, in the order in which it happened."""

from collections.abc import Iterator

from registry.client import releases
from registry.contract.events import (
    Event,
    NodeBack,
    NodeEnrolled,
    NodeLost,
    PinChanged,
    ReleaseHoldChanged,
    ReleasePhaseChanged,
    ReleaseStepped,
    ReleaseVerdictChanged,
    RollbackAsked,
    RollbackDrained,
    RollbackSwitched,
)
from registry.contract.releases import ReleasePhase, RollBack, Transition
from registry.database import Database
from registry.events import watch
from tests.registry.conftest import Registry
from tests.registry.events import telling
from tests.registry.releases import stage
from tests.registry.releases.fleet import fleet
from tests.registry.support import run_sql


def told_of(told: list[Event]) -> Iterator[str]:
    """A short form of what the deployment tells."""
    for event in told:
        match event:
            case ReleasePhaseChanged():
                yield f"{event.data.release} {event.data.to_phase}"
            case ReleaseStepped():
                yield f"{event.data.release} step {event.data.step} {event.data.share}"
            case ReleaseHoldChanged():
                yield f"{event.data.release} hold {event.data.hold}"
            case PinChanged():
                yield f"pinned {event.data.pinned}"
            case RollbackAsked() | RollbackSwitched() | RollbackDrained():
                yield event.type


async def test_the_way_of_a_release_there_and_back(registry: Registry) -> None:
    await stage.stage(registry)
    async with fleet(registry, size=2):
        await stage.released(registry, "animals@1")
        release = await stage.promote(registry, "animals@2")
        await stage.in_phase(registry, release.number, ReleasePhase.RUNNING)
        judged = await stage.until(registry, 2, lambda found: found.verdict is not None)
        await registry.client(releases.pause(stage.REF, 2, Transition(reason="lunch")))
        await registry.client(releases.resume(stage.REF, 2, Transition()))
        await stage.advance(registry, 2)
        receipt = await registry.client(releases.roll_back(stage.REF, RollBack(reason="bad", wait=20)))
        await stage.in_phase(registry, 2, ReleasePhase.ROLLED_BACK)
        told = await telling.logged(registry, RollbackDrained)
        begin = next(at for at, event in enumerate(told) if event.subject == f"release:{stage.REF}#2")
        ends = {"2 rolled_back", "rollback.switched", "rollback.drained"}
        assert [each for each in told_of(told[begin:]) if each not in ends] == [
            "2 preparing",
            "2 running",
            "2 hold paused",
            "2 hold ",
            "2 step 1 5000",
            "rollback.asked",
            "2 rolling_back",
            "pinned True",
        ]
        verdict = next(event for event in told if isinstance(event, ReleaseVerdictChanged))
        assert judged.verdict is not None
        assert (verdict.data.kind, verdict.actor) == (judged.verdict.kind, "controller")
        asked, drained = (
            next(event for event in told if isinstance(event, kind))
            for kind in (RollbackAsked, RollbackDrained)
        )
        assert isinstance(asked, RollbackAsked)
        assert (asked.data.rollback, asked.data.to_version) == (receipt.id, "animals@1@fp32")
        assert (asked.data.from_versions, asked.model) == (("animals@2@fp32",), "animals")
        assert isinstance(drained, RollbackDrained)
        assert (drained.data.nodes, drained.data.confirmed, drained.data.unreachable) == (2, 2, ())


async def test_a_node_that_falls_silent_is_told_once_and_so_is_its_return(registry: Registry) -> None:
    database = Database(registry.settings)

    async def look() -> list[Event]:
        async with database.session() as session, session.begin():
            await watch.nodes(session, 60.0)
        return await telling.log(registry, types=["node.*"])

    async with fleet(registry, size=2) as running:
        running[0].deaf = True
        async with telling.deadline():
            while not any(isinstance(event, NodeLost) for event in await look()):
                await run_sql(
                    registry, "UPDATE nodes SET reported_at = now() - interval '1 h' WHERE name = 'n1'"
                )
        await look()
        running[0].deaf = False
        async with telling.deadline():
            while not any(isinstance(event, NodeBack) for event in await look()):
                await telling.pause()
    told = [event for event in await look() if not isinstance(event, NodeEnrolled)]
    assert [(event.type, event.data.name, event.environment) for event in told] == [  # type: ignore[union-attr]
        ("node.lost", "n1", "prod"),
        ("node.back", "n1", "prod"),
    ]
    await database.close()
