"""What is tried next, and what a candidate is worth. By hand."""

from builder.search.rules import Candidate, Family, Tried, exclusions, families, frontier, order
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


def test_exclusions_double_and_leave_one() -> None:
    ranking = [
        NodeError(node=f"n{at}", operator="Conv", error=1 / (at + 1), effect=1, sqnr_db=1.0)
        for at in range(6)
    ]
    assert list(exclusions(ranking, 6)) == [("n0",), ("n0", "n1"), ("n0", "n1", "n2", "n3")]
    assert list(exclusions(ranking, 1)) == []


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
