"""The imported model against the framework itself: the same inputs, several shapes, alone and in batches."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from builder.data.samples import Sample, shapes, stack
from builder.frontends.probes import MATERIAL
from builder.frontends.request import Array, Converted, Request
from builder.judgement.comparison import deviation
from builder.steps.engines import opened
from builder.steps.sample import made_up
from builder.steps.step import Refused, first_line
from registry.contract.versions import Signature
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine

TARGET = "ort.cpu"
# Largest deviation from the framework, relative to an output's largest element: other kernels, the same sums.
AGREEING = 1e-4
BATCHES = (1, 2, 3, 5)
REAL_ROWS, MADE_UP_ROWS = 32, 8
# A regressor's answer has moved when it moves by more than this part of all that it answers.
MOVED = 1e-3


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """`shapes`: of the first input, the batch first. `deviation`: relative to the largest element."""

    runs: int
    shapes: tuple[tuple[int, ...], ...]
    deviation: float

    @property
    def says(self) -> str:
        shapes = ", ".join("×".join(map(str, shape)) for shape in self.shapes)
        return f"deviates by at most {self.deviation:.1g} from the framework in {self.runs} runs ({shapes})"


def verify(request: Request, converted: Converted, model: Path, target: str = TARGET) -> SourceCheck:
    """`model`: an engine of the target.

    Raises Refused when the framework refuses inputs of the contract, or the model answers something else.
    """
    names = [spec.name for spec in request.signature.outputs]
    first = request.signature.inputs[0].name
    worst, ran = 0.0, Counter[tuple[int, ...]]()
    with opened(model, target) as engine:
        for batch in _batches(request):
            inputs = stack([sample.tensors for sample in batch])
            rows = f"{len(batch)} row{'s' if len(batch) > 1 else ''} from {batch[0].key!r}"
            wanted = _framework(converted, inputs, rows)
            got = _imported(engine, inputs, rows)
            off = deviation(wanted, {name: got[name] for name in names})
            if off > AGREEING:
                raise Refused(_differs(request.signature, converted, wanted, got, inputs[first].shape, off))
            worst = max(worst, off)
            ran[inputs[first].shape] += 1
    return SourceCheck(sum(ran.values()), tuple(ran), worst)


def _batches(request: Request) -> list[list[Sample]]:
    """Every row alone, then rows of equal shape together, where the contract lets the batch vary."""
    varies = request.max_rows > 1 and all(isinstance(spec.shape[0], str) for spec in request.signature.inputs)
    made = made_up(request.signature, MADE_UP_ROWS)
    rows = [*request.samples[:REAL_ROWS], *made]
    found = [[row] for row in rows]
    if varies:
        for lead in (rows[0], made[0], made[1]):
            same = [row for row in rows if shapes(row.tensors) == shapes(lead.tensors)]
            found += [
                [same[turn % len(same)] for turn in range(size)]
                for size in BATCHES
                if 1 < size <= request.max_rows
            ]
    return found


def _framework(converted: Converted, inputs: Mapping[str, Array], rows: str) -> dict[str, Array]:
    try:
        return converted.reference(inputs)
    except Exception as error:  # any framework, any model: the text is all that they share
        first = first_line(error)
        raise Refused(
            f"the framework itself fails on {rows} that the contract allows: {first}; correct the contract, "
            "or save the model so that these axes may vary (an example batch of 1 freezes the batch)"
        ) from error


def _imported(engine: LoadedEngine, inputs: Mapping[str, Array], rows: str) -> dict[str, Array]:
    try:
        return engine.infer(inputs)
    except RuntimeFault as error:
        raise Refused(
            f"the imported model fails on {rows}, which the framework answers: {error}; an axis was frozen "
            "when it was traced: save it again with an example batch of 2 and the axes dynamic"
        ) from error


def _differs(
    signature: Signature,
    converted: Converted,
    wanted: Mapping[str, Array],
    got: Mapping[str, Array],
    shape: tuple[int, ...],
    off: float,
) -> str:
    """Names the output that is furthest off."""
    name = max(
        (spec.name for spec in signature.outputs),
        key=lambda name: deviation({name: wanted[name]}, {name: got[name]}),
    )
    return (
        f"the imported model is not the framework's: output {name!r} deviates by {off:.2g} of its largest "
        f"element for input shape {list(shape)} (limit {AGREEING:g}, by {converted.exporter}); where the "
        "model draws random numbers or keeps state between calls, make it a pure function of its inputs"
    )


def flipped(request: Request, converted: Converted, model: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What FP32 flips near the thresholds: sentences for differences that matter, and for very fine ones."""
    if not converted.probes or converted.decide is None or converted.table is None:
        return (), ()
    rows = np.stack([probe.row for probe in converted.probes])
    wanted = converted.decide(rows)
    with opened(model, TARGET) as engine:
        got = engine.infer(converted.table.inputs(rows))
    other = _decided_otherwise(request.signature, wanted, got)
    found: dict[bool, tuple[str, ...]] = {}
    for material in (True, False):
        picked = [at for at, probe in enumerate(converted.probes) if (probe.share == MATERIAL) is material]
        hits = Counter(converted.probes[at].feature for at in picked if other[at])
        found[material] = _flip_sentences(hits, len(picked), converted, material)
    return found[True], found[False]


def _decided_otherwise(signature: Signature, wanted: Mapping[str, Array], got: Mapping[str, Array]) -> Array:
    """bool[rows]. A label where there is one, then the best class, then a number that moved."""
    labels = [spec.name for spec in signature.outputs if spec.dtype not in FLOATS]
    many = [spec.name for spec in signature.outputs if wanted[spec.name][0].size > 1]
    if labels:
        return np.asarray(wanted[labels[0]].ravel() != got[labels[0]].ravel())
    if many:
        return np.asarray(wanted[many[0]].argmax(axis=1) != got[many[0]].argmax(axis=1))
    name = signature.outputs[0].name
    values = wanted[name].astype(np.float64).ravel()
    moved = np.abs(values - got[name].ravel())
    return np.asarray(moved > MOVED * float(np.ptp(values)))


def _flip_sentences(hits: Counter[str], tried: int, converted: Converted, material: bool) -> tuple[str, ...]:
    if not hits:
        return ()
    share = "a ten-thousandth" if material else "a ten-millionth"
    features = ", ".join(name for name, _ in hits.most_common(5))
    nearest = next(
        probe.threshold for probe in converted.probes if probe.feature == hits.most_common(1)[0][0]
    )
    return (
        f"{hits.total()} of {tried} rows that are {share} of a feature's range beside a threshold are "
        f"decided otherwise, because FP32 can't hold their difference (features {features}; one threshold "
        f"is {nearest:.17g}); declare the input FP64 (the double path), or train on scaled features "
        "(subtract each feature's mean, divide by its deviation)",
    )
