"""The sticky split: everybody has one arm, shares are kept, and a wider canary ejects nobody."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from registry.contract.routes import BASIS_POINTS, ArmRole
from serving.gateway.split import Split, bucket

SHARES = st.integers(0, BASIS_POINTS)
KEYS = st.binary(max_size=40)
SALTS = st.text(max_size=20)


def two(salt: str, canary: int, stable: int | None = None) -> Split:
    rest = BASIS_POINTS - canary if stable is None else stable
    return Split.of(salt, [(ArmRole.STABLE, rest), (ArmRole.CANARY, canary)])


@given(SALTS, KEYS, SHARES)
def test_the_canary_owns_the_buckets_below_its_share(salt: str, key: bytes, share: int) -> None:
    assert two(salt, share).choose(key) == (1 if bucket(salt, key) < share else 0)


@given(SALTS, KEYS, SHARES, SHARES)
def test_widening_ejects_nobody(salt: str, key: bytes, one: int, other: int) -> None:
    narrow, wide = sorted((one, other))
    if two(salt, narrow).choose(key) == 1:
        assert two(salt, wide).choose(key) == 1


@given(SALTS, KEYS, st.lists(st.tuples(st.sampled_from(ArmRole), SHARES), max_size=5))
def test_only_arms_with_a_share_are_chosen(salt: str, key: bytes, arms: list[tuple[ArmRole, int]]) -> None:
    split = Split.of(salt, arms)
    chosen = split.choose(key)
    assert split.choose(key) == chosen
    if chosen is not None:
        assert arms[chosen][1] > 0
    elif any(role is ArmRole.STABLE and share for role, share in arms):
        raise AssertionError("a stable arm with a share leaves nobody over")


def test_a_canary_never_takes_what_an_unloaded_stable_leaves() -> None:
    split = two("s", 500, 0)
    chosen = Counter(split.choose(b"%d" % n) for n in range(2000))
    assert 40 < chosen[1] < 200
    assert chosen[None] == 2000 - chosen[1]


def test_shares_are_kept_over_counters_and_salts_differ() -> None:
    ids = [b"7f3a-%x" % n for n in range(20_000)]
    for canary in (500, 2500, 5000):
        n = sum(two("release-1", canary).choose(one) == 1 for one in ids)
        assert abs(n / len(ids) - canary / BASIS_POINTS) < 0.012
    tried = [{one for one in ids if two(salt, 500).choose(one) == 1} for salt in ("release-1", "release-2")]
    assert len(tried[0] & tried[1]) < 0.15 * len(tried[0])


def test_buckets_are_those_that_were_written_down() -> None:
    """A change of the hash would move every caller of a running release."""
    assert [bucket("salt", value) for value in (b"", b"a", b"user-1")] == [2623, 1990, 9588]
