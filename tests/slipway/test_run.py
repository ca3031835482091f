"""The `run` script, with an interpreter that only notes what it is asked to do."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
# $1 $2 are what tells the calls apart; `-m venv --clear DIR` makes an environment with this same interpreter.
_INTERPRETER = """#!/bin/sh
for word in "$@"; do printf '%s|' "$word"; done >>"$CALLS"
printf '\\n' >>"$CALLS"
case "$1 $2" in
"-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-c "*ensurepip*) [ -z "$NO_VENV" ] ;;
"-c "*print*) echo "3 12 1 $0" ;;
esac
"""


@dataclass
class Checkout:
    root: Path
    calls: Path
    interpreter: Path

    def run(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Runs it from another directory; `calls` holds those of this run only."""
        self.calls.write_text("")
        return subprocess.run(
            [self.root / "run", *arguments],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHON": str(self.interpreter), "NO_VENV": ""}
            | {"CALLS": str(self.calls)}
            | environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def installs(self) -> list[str]:
        """What pip was asked to install by the last run."""
        return [line for line in self.calls.read_text().splitlines() if "|install|" in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a check out"
    (root / "requirements").mkdir(parents=True)
    shutil.copy2(_ROOT / "run", root)
    (root / "pyproject.toml").write_text("[project]\n")
    for lock in ("run", "dev"):
        (root / "requirements" / f"{lock}.txt").write_text(f"{lock}==1\n")
    interpreter = tmp_path / "my python"
    interpreter.write_text(_INTERPRETER)
    interpreter.chmod(0o755)
    return Checkout(root, tmp_path / "calls", interpreter)


def test_the_first_run_sets_up_and_the_second_starts_at_once(checkout: Checkout) -> None:
    first = checkout.run("demo", "--fault", "two words")
    assert first.returncode == 0, first.stderr
    lock, project = checkout.installs()
    assert "|--require-hashes|-r|requirements/run.txt|" in lock
    assert "|--no-deps|--no-build-isolation|-e|.|" in project
    assert checkout.calls.read_text().endswith("-m|slipway.demo|--fault|two words|\n")

    second = checkout.run("demo")
    assert second.returncode == 0
    assert second.stderr == ""
    assert checkout.installs() == []


def test_a_changed_lock_is_installed_again_and_an_unchanged_environment_is_kept(checkout: Checkout) -> None:
    checkout.run("demo")
    (checkout.root / "requirements" / "run.txt").write_text("run==2\n")
    checkout.run("demo")
    assert len(checkout.installs()) == 2
    assert "|venv|" not in checkout.calls.read_text()


def test_what_is_set_up_for_tests_serves_the_demo_but_not_the_other_way_round(checkout: Checkout) -> None:
    checkout.run("demo")
    checkout.run("bench")
    assert "requirements/dev.txt" in checkout.installs()[0]
    checkout.run("demo")
    assert checkout.installs() == []


def test_a_failed_installation_is_said_and_tried_again(checkout: Checkout) -> None:
    checkout.interpreter.write_text(_INTERPRETER + 'case "$*" in *require-hashes*) exit 1 ;; esac\n')
    failed = checkout.run("demo")
    assert failed.returncode == 1
    assert "packages could not be installed" in failed.stderr

    (checkout.root / ".venv" / "bin" / "python").write_text(_INTERPRETER)
    assert checkout.run("demo").returncode == 0
    assert len(checkout.installs()) == 2


def test_a_missing_venv_module_is_named_with_its_package(checkout: Checkout) -> None:
    failed = checkout.run("up", NO_VENV="1")
    assert failed.returncode == 1
    assert "apt-get install python3-venv" in failed.stderr
    assert not (checkout.root / ".venv").exists()


def test_an_unfit_interpreter_is_refused_by_name(checkout: Checkout) -> None:
    failed = checkout.run("test", PYTHON="/bin/false")
    assert failed.returncode == 1
    assert "PYTHON=/bin/false is not a Python from 3.11 to 3.13" in failed.stderr


def test_an_unknown_verb_and_none_show_the_usage(checkout: Checkout) -> None:
    unknown, none, helped = checkout.run("dmeo"), checkout.run(), checkout.run("help")
    assert (unknown.returncode, none.returncode, helped.returncode) == (2, 2, 0)
    assert "no verb 'dmeo'" in unknown.stderr
    assert "usage: ./run VERB" in none.stderr
    assert "usage: ./run VERB" in helped.stdout
    assert checkout.calls.read_text() == ""
