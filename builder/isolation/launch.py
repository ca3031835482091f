"""Where a step runs: in this worker's own environment or another one, and behind which walls."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.environments.environment import Environment, find, missing
from builder.frontends.plan import Plan
from builder.isolation import sandbox
from builder.steps.step import Refused


@dataclass(frozen=True, slots=True)
class Place:
    """`environment`: a worker environment by name; None: the worker's own. `walled`: inside a sandbox."""

    environment: str | None = None
    walled: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """As `python -m builder.steps` takes it."""
        named = ("--environment", self.environment) if self.environment else ()
        return (*named, *(("--walled",) if self.walled else ()))


HERE = Place()


def place_of(plan: Plan, allow_code: bool) -> Place:
    """Where a model of this format is imported. Raises Refused when this worker may not, or can't.

    Foreign formats are read behind walls wherever there are any; those that execute code nowhere else.
    """
    if plan.environment is None:
        return HERE
    if plan.executes_code and not allow_code:
        raise Refused(
            f"{plan.main} is a format that executes code when it is loaded ({plan.format}), and this worker "
            "imports none (SLIPWAY_ALLOW_CODE is false); register it in a format that holds data only, or "
            "let a worker import it in a sandbox: SLIPWAY_ALLOW_CODE=true"
        )
    refusal = sandbox.refusal()
    if plan.executes_code and refusal:
        raise Refused(
            f"{plan.main} is a format that executes code when it is loaded ({plan.format}), and {refusal}: "
            "so it is not run here; register it in a format that holds data only"
        )
    return Place(plan.environment, walled=not refusal)


def environment_of(place: Place) -> Environment | None:
    """Raises Refused when it is not made yet."""
    if place.environment is None:
        return None
    found = find(place.environment)
    if found is None:
        raise Refused(missing(place.environment))
    return found


def command(
    place: Place, step: str, inputs: Mapping[str, Path], parameters: Path, out: Path, parent: int
) -> list[str]:
    """What performs a step there. It ends when the process `parent` does. Raises Refused."""
    environment = environment_of(place)
    python = str(environment.python) if environment else sys.executable
    words = [python, "-P", "-m", "builder.steps", step]
    for name, path in inputs.items():
        words += ["--input", f"{name}={path}"]
    words += ["--parameters", f"@{parameters}", "--out", str(out)]
    if not place.walled:
        return [*words, "--parent", str(parent)]
    layers = (environment.folder,) if environment else ()
    return [*sandbox.prefix((*layers, parameters, *inputs.values()), out, parent), *words]
