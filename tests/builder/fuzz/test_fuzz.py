"""Mutated model files through `import` and `check`: each is refused in words, crashes alone, or is sound.

How many comes from SOAK_FILES (`./run soak fuzz`), which are spread over all formats; without it, a
few of those that the worker's own environment reads.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from builder.steps.step import OUTCOME_FILE, StepEnding, StepOutcome
from serving.runtimes import walled
from tests import environments
from tests.builder.fuzz import seeds
from tests.builder.fuzz.mutations import mutated

# The first one of an environment may have to make it.
pytestmark = pytest.mark.timeout(3600)

FEW = 40
ASKED = os.environ.get("SOAK_FILES", "")
SEED = int(os.environ.get("SOAK_SEED", "1"))
FORMS = [form for form, environment in seeds.ENVIRONMENTS.items() if ASKED or environment is None]
EACH = int(ASKED or FEW) // len(FORMS) + 1
# What a step says of an error that nobody thought of.
UNFORESEEN = re.compile(r"^[A-Za-z_.]+: ")
MEMORY = "ran out of its memory"


def run(form: str, *words: str, given: str = "") -> None:
    environment = seeds.ENVIRONMENTS[form]
    python = str(environments.worker(environment).python) if environment else sys.executable
    ended = subprocess.run(
        [python, "-m", *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=environments.ROOT,
        env={
            "PATH": os.environ["PATH"],
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONDONTWRITEBYTECODE": "1",
            # The sandbox is proven elsewhere; these files execute nothing but what their format is for.
            walled.MARK: "1",
        },
    )
    assert ended.returncode == 0, ended.stderr[-4000:]


def broken(form: str, seed: Path, home: Path) -> list[Path]:
    """Folders of versions with one file changed."""
    chance = random.Random(f"{form} {SEED}")
    files = [path for path in sorted((seed / "version").rglob("*")) if path.is_file() and path.stat().st_size]
    cases = []
    for at in range(EACH):
        case = home / f"{at:04d}"
        shutil.copytree(seed / "version", case / "version")
        victim = chance.choice(files)
        changed = case / "version" / victim.relative_to(seed / "version")
        changed.write_bytes(mutated(victim.read_bytes(), victim.name, chance))
        cases.append(case)
    return cases


def judged(case: Path) -> tuple[str, str]:
    """How it ended, and what is wrong with that; empty where nothing is."""
    code = json.loads((case / "ended.json").read_text())
    if code is None:
        return "hung", "hung"
    if code < 0:
        return f"crashed ({-code})", ""
    (last,) = [path for path in (case / "check", case / "import") if path.is_dir()][:1]
    if not (last / OUTCOME_FILE).is_file():
        return "silent", f"no outcome, exit code {code}: {(case / 'log').read_text(errors='replace')[-500:]}"
    outcome = StepOutcome.model_validate_json((last / OUTCOME_FILE).read_bytes())
    if outcome.ending is StepEnding.FAILED and MEMORY not in outcome.reason:
        return "unforeseen", outcome.reason
    if outcome.ending is StepEnding.REFUSED and (not outcome.reason or UNFORESEEN.match(outcome.reason)):
        return "unclear", outcome.reason
    return outcome.ending.value, ""


@pytest.mark.parametrize("form", FORMS)
def test_a_mutated_file_ends_in_words(form: str, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    run(form, "tests.builder.fuzz.seeds", form, str(seed))
    sound = tmp_path / "sound"
    shutil.copytree(seed / "version", sound / "version")
    cases = broken(form, seed, tmp_path / "cases")
    listed = "\n".join(str(case) for case in [sound, *cases])
    run(form, "tests.builder.fuzz.player", str(seed), form, given=listed)
    assert judged(sound) == ("done", ""), (sound / "log").read_text(errors="replace")[-2000:]
    found = {case: judged(case) for case in cases}
    print(form, dict(Counter(ending for ending, _ in found.values())))
    assert {str(case): wrong for case, (_, wrong) in found.items() if wrong} == {}
    assert len({ending for ending, _ in found.values()}) > 1, "some of them break, and some don't"
