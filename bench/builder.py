"""Real models through the builder: naive INT8 recipes are refused, and the search finds one that holds.

Each model is built twice: by its naive recipe, and by a search that begins with it. Metrics are those of the
builder's own validation; speed is that of its bench step, alternately with the source in one process.
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.models import minilm, ocr, shapes
from bench.models.case import Case, dataset
from builder.isolation import isolate
from registry.contract.engines import Engine, GateOutcome
from registry.contract.recipes import Precision, Recipe, SearchOptions
from slipway.client import Client
from slipway.demo.service import service
from tests.builder import pictures

WAIT_S = 7200.0
CASES: dict[str, Callable[[Path], Case]] = {
    "ocr-recogniser": ocr.recogniser,
    "minilm": minilm.encoder,
    "yolo-like": shapes.detector,
}


def run(output: str = "table", only: Sequence[str] = ()) -> dict[str, Any]:
    """Measures and returns `{models: […]}`; prints one line per model. `output`: `json` or `table`; `only`:
    names of models, all of them where it is empty. Raises SystemExit for a name that there isn't."""
    unknown = [name for name in only if name not in CASES]
    if unknown:
        raise SystemExit(f"there is no model {', '.join(unknown)}: there are {', '.join(CASES)}")
    models = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # PostgreSQL may run as another user.
        Path(folder).chmod(0o755)
        with service(Path(folder) / "home", _say, nodes=0) as up:
            for name in only or CASES:
                models.append(_measured(up.client, CASES[name](Path(folder)), Path(folder)))
                if output != "json":
                    print(json.dumps(models[-1], indent=2))
        return {"models": models, "calibration": _calibration(Path(folder))}


def _calibration(folder: Path) -> dict[str, float]:
    """Peak memory of the calibrate step, both passes and all calibrators, on few and on many pictures of
    320 × 320."""
    model = pictures.model(folder / "pictures.onnx")
    peaks = {}
    for rows in (10, 1000):
        made = pictures.rows(folder / f"pictures-{rows}", rows)
        outcome = isolate.run(
            [
                sys.executable,
                "-P",
                "-m",
                "builder.steps",
                *pictures.calibrate(model, made, folder / "ranges"),
            ],
            folder=folder,
            log=folder / "calibrate.log",
            limits=isolate.Limits(timeout_s=WAIT_S, memory_bytes=8192 * isolate.MIB),
            environment={"PATH": os.environ["PATH"]},
            heard=lambda text: None,
            stop=threading.Event(),
        )
        if outcome.ending is not isolate.Ending.OK:
            raise SystemExit(f"calibrating {rows} rows: {outcome.reason}")
        peaks[rows] = outcome.peak_memory_bytes / isolate.MIB
    return {"peak_mib_10": peaks[10], "peak_mib_1000": peaks[1000], "ratio": peaks[1000] / peaks[10]}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measured(client: Client, case: Case, folder: Path) -> dict[str, Any]:
    version = client.register(case.name, case.files, case.contract, framework=case.framework)
    recipe = Recipe(
        precisions=(Precision.INT8_STATIC,),
        calibration=dataset(client, f"{case.name}-cal", "calibration", case.calibration, folder),
        validation=dataset(client, f"{case.name}-val", "validation", case.validation, folder),
        int8=case.naive,
        tolerances=case.tolerances,
    )
    name = f"{version.model}@{version.number}"
    naive = _built(client, name, recipe)
    others = {
        kind: _built(
            client,
            name,
            recipe.model_copy(
                update={"precisions": (one.precision,), "int8": one.int8, "tolerances": one.tolerances}
            ),
        )
        for kind, one in case.others.items()
    }
    searched = _built(client, name, recipe.model_copy(update={"search": SearchOptions(candidates=32)}))
    return _row(case, naive, others, searched)


def _built(client: Client, version: str, recipe: Recipe) -> Engine:
    build = client.build(version, recipe, wait=WAIT_S)
    if not build.engines:
        raise SystemExit(f"{version} could not be built: {build.reason}")
    engine = build.engines[0]
    for gate in engine.gates:
        _say(f"{version} {gate.name} {gate.outcome}: {gate.reason}")
    return engine


def _row(case: Case, naive: Engine, others: dict[str, Engine], searched: Engine) -> dict[str, Any]:
    judged, bench, search = searched.validation, searched.bench, searched.search
    assert search is not None
    _say(search.says)
    return {
        "name": case.name,
        "source_metric": judged.source_metric if judged else None,
        "engine_metric": judged.engine_metric if judged else None,
        "loss_upper": judged.loss_upper if judged else None,
        "rows": judged.rows if judged else None,
        "accepted": searched.releasable,
        "naive_accepted": naive.releasable,
        "naive_refused": _why(naive),
        **{f"{kind}_accepted": engine.releasable for kind, engine in others.items()},
        **{f"{kind}_refused": _why(engine) for kind, engine in others.items() if not engine.releasable},
        "recipe": search.says,
        "excluded": list(searched.excluded),
        "tried": search.tried,
        "frontier": [one.model_dump(mode="json") for one in search.candidates if one.frontier],
        "candidates": [one.model_dump(mode="json", exclude={"operators"}) for one in search.candidates],
        "speed_ratio": bench.speed_ratio if bench else None,
        "size_ratio": bench.size_ratio if bench else None,
    }


def _why(engine: Engine) -> str:
    """The gate that refused it, and who is to blame."""
    refused = [
        gate for gate in engine.gates if gate.outcome in (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)
    ]
    culprit = f"; {engine.bisection.says}" if engine.bisection else ""
    return f"{refused[0].name}: {refused[0].reason}{culprit}" if refused else ""
