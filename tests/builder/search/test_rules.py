"""What is tried next, and what a candidate is worth. By hand."""

from builder.search.rules import Candidate, Family, Tried, counts, dearest, families, frontier, order, rounds
from registry.contract.engines import CandidateReport, NodeError
from registry.contract.recipes import Int8Options

ASKED = Int8Options(per_channel=False, exclude_nodes=("stem",))
WIDE = ("Conv", "MatMul")


def test_the_recipe_s_own_comes_first_then_one_change_at_a_time() -> None:
    found = families(ASKED, (), WIDE, static=True, saturates=False)
    assert found[:4] == [
        Family("minmax", False, ()),
        Family("minmax", True, ()),
        Family("minmax", True, WIDE),
        Family("entropy", True, ()),
    ]
    assert len(found) == len(set(found)) == 9


def test_where_sums_saturate_weights_of_seven_bits_are_tried() -> None:
    found = families(Int8Options(), (), WIDE, static=True, saturates=True)
    assert found[:2] == [Family("minmax", True, ()), Family("minmax", True, (), reduce_range=True)]
    assert all(family.reduce_range for family in found[1:])


def test_dynamic_int8_has_no_calibrators_to_try() -> None:
    assert families(Int8Options(), (), ("MatMul",), static=False, saturates=False) == [
        Family("minmax", True, ()),
        Family("minmax", True, ("MatMul",)),
    ]


def test_what_the_recipe_excludes_stays_excluded() -> None:
    options = Candidate(Family("mse", True, WIDE), ("head",)).options(ASKED)
    assert options == Int8Options(
        operators=WIDE, exclude_nodes=("stem", "head"), per_channel=True, calibrator="mse"
    )


def test_exclusions_grow_by_a_third_or_a_half_and_leave_one() -> None:
    assert list(counts(40, 60)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert list(counts(6, 6)) == [1, 2, 3, 4]
    assert list(counts(6, 1)) == list(counts(0, 6)) == []


def test_who_harms_most_for_what_it_saves_goes_first() -> None:
    """A stem harms less than a wide layer, and costs a hundredth of its time to leave out."""
    harms = {"wide": (0.5, 1_000), "stem": (0.3, 10), "head": (0.01, 10), "sum": (0.001, 0)}
    ranking = [
        NodeError(node=name, operator="Conv", error=1, effect=effect, sqnr_db=1.0, operations=operations)
        for name, (effect, operations) in harms.items()
    ]
    assert dearest(ranking) == ("stem", "head", "sum", "wide")


def test_the_recipe_s_own_calibrator_is_a_round_of_its_own() -> None:
    found = families(Int8Options(calibrator="mse"), (), WIDE, static=True, saturates=False)
    own, others = rounds(found)
    assert {family.calibrator for family in own} == {"mse"}
    assert {family.calibrator for family in others} == {"minmax", "entropy", "percentile"}
    assert set(own) | set(others) == set(found)


def test_only_what_misses_quality_is_worth_excluding_from_and_the_fast_before_the_slow() -> None:
    names: tuple[tuple[str, set[str], float], ...] = (
        ("minmax", {"quality"}, 8),
        ("entropy", {"quality"}, 9),
        ("mse", {"speed"}, 30),
        ("percentile", {"quality", "speed"}, 9.5),
    )
    tried = [
        Tried(Candidate(Family(name, True, ())), frozenset(fails), quality)  # type: ignore[arg-type]
        for name, fails, quality in names
    ]
    assert [family.calibrator for family in order(tried)] == ["entropy", "minmax", "percentile"]


def test_the_frontier_holds_what_no_other_beats() -> None:
    def point(name: str, sqnr_db: float | None, speed: float, size: float) -> CandidateReport:
        return CandidateReport(
            name=name, per_channel=True, reason="", sqnr_db=sqnr_db, speed_ratio=speed, size_ratio=size
        )

    found = frontier(
        [
            point("fast", 5, 2.0, 0.3),
            point("good", 30, 1.4, 0.3),
            point("worse than good", 29, 1.4, 0.3),
            point("small", 4, 1.0, 0.2),
            point("unmeasured", None, 9, 0.1),
        ]
    )
    assert [one.name for one in found if one.frontier] == ["fast", "good", "small"]
