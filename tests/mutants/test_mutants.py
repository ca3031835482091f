"""Naive implementations that look right: on each of them the suite must turn red, in the test that is named.

A mutant is our tree with one text of one file replaced, in a directory of its own.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("builder", "registry", "serving", "slipway", "tests", "web", "migrations")


@dataclass(frozen=True)
class Mutant:
    """`caught_by`: the test that fails on it, as pytest names it."""

    name: str
    file: str
    ours: str
    naive: str
    caught_by: str


GATEWAY = "tests/serving/gateway"
DECIDE = "tests/registry/statistics/test_decide.py"

MUTANTS = (
    Mutant(
        "batches of mixed shapes",
        "serving/pipeline/batch.py",
        "tensor.dtype.str, tensor.shape[1:])",
        "tensor.dtype.str, ())",
        "tests/serving/pipeline/test_batch.py::test_only_equal_shapes_and_types_share_a_batch",
    ),
    Mutant(
        "time-outs that no timer ends",
        "serving/gateway/deadlines.py",
        "                work.expire()\n",
        "                pass\n",
        f"{GATEWAY}/test_limits.py::test_the_deadline_counts_the_queue_and_names_the_layer",
    ),
    Mutant(
        "somebody else's rows",
        "serving/gateway/batching.py",
        "if self.rules.rows_out and any(",
        "if not self.rules.rows_out and any(",
        f"{GATEWAY}/test_batching.py::test_rows_out_must_be_rows_in",
    ),
    Mutant(
        "one poisoned request fails its neighbours",
        "serving/gateway/batching.py",
        "        if len(works) == 1:\n            works[0].fail(fault)\n            return\n",
        "        for work in works:\n            work.fail(fault)\n        return\n",
        f"{GATEWAY}/test_batching.py::test_a_poisoned_request_fails_alone",
    ),
    Mutant(
        "drained as soon as switched",
        "serving/gateway/drain.py",
        "if self._over or any(book.open for book in self._books):",
        "if self._over:",
        f"{GATEWAY}/test_swaps.py::test_drained_comes_after_the_last_answer_of_the_old_arm",
    ),
    Mutant(
        "the same users are always tried on",
        "serving/gateway/split.py",
        'blake2b(salt.encode() + b"\\x00" + value, digest_size=8)',
        "blake2b(value, digest_size=8)",
        f"{GATEWAY}/test_split.py::test_shares_are_kept_over_counters_and_salts_differ",
    ),
    Mutant(
        "mirroring without a budget",
        "serving/gateway/mirroring.py",
        "        if rows > self.rows:\n            return False\n",
        "",
        f"{GATEWAY}/test_mirroring.py::test_the_budget_bounds_the_extra_load",
    ),
    Mutant(
        "a judge that always holds",
        "registry/statistics/decide.py",
        'fired = [gate for gate in every if gate.outcome == "fired"]',
        "fired: list[GateProgress] = []",
        f"{DECIDE}::test_errors_roll_back_and_the_sentence_has_the_counts",
    ),
    Mutant(
        "a judge that advances on bad evidence",
        "registry/statistics/decide.py",
        '(None, "roll_back", VerdictKind.ROLL_BACK, "Roll back")',
        '(None, "roll_back", VerdictKind.ADVANCE, "Roll back")',
        f"{DECIDE}::test_errors_roll_back_and_the_sentence_has_the_counts",
    ),
    Mutant(
        "no data is good news",
        "registry/statistics/decide.py",
        "if evidence.proofs.canary_n[0] == 0.0:",
        "if evidence.proofs.canary_n[0] < 0.0:",
        f"{DECIDE}::test_no_data_is_hold_however_long_it_lasts",
    ),
    Mutant(
        "looking often enough finds a fault in anything",
        "registry/statistics/memory.py",
        "np.zeros_like(t) if endless else spent",
        "np.zeros_like(t)",
        "tests/registry/statistics/test_memory.py"
        "::test_under_the_null_it_ever_reaches_one_over_alpha_in_at_most_alpha",
    ),
    Mutant(
        "too little data is accepted",
        "registry/lifecycle/gates.py",
        "AGAINST = (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)",
        "AGAINST = (GateOutcome.FAILED,)",
        "tests/registry/lifecycle/test_gates.py::test_a_gate_that_speaks_against_it_is_told_word_for_word",
    ),
    Mutant(
        "validation by a point estimate",
        "builder/judgement/bounds.py",
        "    low, high = (lost - gained) / rows, 1.0\n",
        "    return (lost - gained) / rows\n    low, high = 0.0, 1.0\n",
        "tests/builder/judgement/test_bounds.py"
        "::test_a_model_exactly_at_the_limit_is_accepted_in_about_one_of_twenty_runs",
    ),
    Mutant(
        "a load client that tries again",
        "slipway/demo/load.py",
        "        attempt = Attempt(\n",
        "        if status == 503:\n            return await self._attempt(n, intended, journal)\n"
        "        attempt = Attempt(\n",
        "tests/slipway/test_load.py::test_every_attempt_is_sent_once_and_kept_whatever_came_back",
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_suite_is_red_on(mutant: Mutant, tmp_path: Path) -> None:
    plant(mutant, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", mutant.caught_by],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    # Failed by the test itself: an error at import or in a fixture would prove nothing.
    assert f"FAILED {mutant.caught_by}" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-2000:]


def plant(mutant: Mutant, folder: Path) -> None:
    """The tree with the mutant in it: the mutant's package is a copy, the others are links."""
    copied = mutant.file.partition("/")[0]
    for package in PACKAGES:
        if package == copied:
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (folder / package).symlink_to(ROOT / package)
    (folder / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    file = folder / mutant.file
    text = file.read_text()
    assert text.count(mutant.ours) == 1, f"{mutant.file} has changed: plant {mutant.name!r} anew"
    file.write_text(text.replace(mutant.ours, mutant.naive))
