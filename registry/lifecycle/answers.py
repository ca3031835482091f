"""Do a version's post-processing steps fit its outputs, and what do their answers hold? Pure."""

from collections.abc import Iterator
from typing import assert_never

from registry.contract.pipeline import (
    Argmax,
    Classify,
    Ctc,
    Detect,
    Fields,
    Holds,
    PostStep,
    Regress,
    Tags,
    Tensors,
    TokenText,
)
from registry.contract.versions import Dtype, Observable, TensorSpec, VersionContract

# What an observable of a kind can be read from.
_READS: dict[str, tuple[Holds, ...]] = {
    "class": ("text", "number"),
    "score": ("number",),
    "value": ("number",),
    "count": ("number", "list"),
    "length": ("text", "list", "number"),
}


def answer_fields(contract: VersionContract) -> Fields:
    """What an answer holds, in order."""
    return contract.pipeline.holds([tensor.name for tensor in contract.signature.outputs])


def post_faults(contract: VersionContract) -> Iterator[str]:
    outputs = {tensor.name: tensor for tensor in contract.signature.outputs}
    for step in contract.pipeline.post:
        missing = [name for name in _reads(step) if name not in outputs]
        for name in missing:
            yield f"{step.kind} reads {name!r}; the outputs are {', '.join(outputs) or 'none'}"
        if not missing:
            yield from _step_faults(step, outputs)
    names = [name for name, _ in answer_fields(contract)]
    for field in sorted({name for name in names if names.count(name) > 1}):
        yield f"two post-processing steps write {field!r}"


def source_fault(observable: Observable, fields: Fields) -> str | None:
    """Why the observable can't be read from answers with these fields."""
    held = dict(fields)
    if observable.source not in held:
        return (
            f"the observable {observable.name!r} reads {observable.source!r}; "
            f"an answer has {', '.join(name for name, _ in fields)}"
        )
    holds = held[observable.source]
    if holds != "any" and holds not in _READS[observable.kind]:
        return (
            f"the observable {observable.name!r} is a {observable.kind}, and {observable.source!r} holds a "
            f"{holds}; a {observable.kind} is read from {' or '.join(_READS[observable.kind])}"
        )
    return None


def _reads(step: PostStep) -> tuple[str, ...]:
    match step:
        case Tensors():
            return ()
        case Detect():
            return (step.boxes,) if step.scores is None else (step.boxes, step.scores)
        case Classify() | Argmax() | Tags() | Regress() | Ctc() | TokenText():
            return (step.output,)
        case _:
            assert_never(step)


def _step_faults(step: PostStep, outputs: dict[str, TensorSpec]) -> Iterator[str]:
    match step:
        case Classify() | Tags() | Argmax():
            yield from _label_faults(step, outputs[step.output])
        case Regress():
            yield from _regress_faults(step, outputs[step.output])
        case Ctc():
            yield from _ctc_faults(step, outputs[step.output])
        case TokenText():
            rank = len(outputs[step.output].shape)
            if rank not in (2, 3):
                yield f"token-text reads [rows, length] or [rows, length, vocabulary], not a rank of {rank}"
        case Detect():
            yield from _detect_faults(step, outputs)
        case Tensors():
            return
        case _:
            assert_never(step)


def _label_faults(step: Classify | Tags | Argmax, tensor: TensorSpec) -> Iterator[str]:
    for label in sorted({label for label in step.labels if step.labels.count(label) > 1}):
        yield f"{step.kind} lists the label {label!r} twice"
    classes = tensor.shape[-1] if len(tensor.shape) > 1 else None
    if not isinstance(classes, int) or not step.labels or tensor.dtype is Dtype.BYTES:
        return
    if classes == 1 and isinstance(step, Argmax):
        return
    if classes == 1 and isinstance(step, Classify) and step.sigmoid:
        classes = 2
    if classes != len(step.labels):
        yield f"{step.kind} has {len(step.labels)} labels, but {step.output!r} has {classes} classes"


def _regress_faults(step: Regress, tensor: TensorSpec) -> Iterator[str]:
    width = tensor.shape[-1] if len(tensor.shape) > 1 else 1
    if step.column is not None and isinstance(width, int) and step.column >= width:
        yield f"regress reads column {step.column} of {step.output!r}, which has {width}"
    if step.low is not None and step.high is not None and step.low > step.high:
        yield f"regress allows nothing: low {step.low:g} is above high {step.high:g}"


def _ctc_faults(step: Ctc, tensor: TensorSpec) -> Iterator[str]:
    if len(tensor.shape) != 3:
        yield f"ctc reads [rows, steps, classes], but {step.output!r} has a rank of {len(tensor.shape)}"
        return
    if bool(step.tokens) == (step.file is not None):
        yield "ctc wants its characters once: either tokens or file"
    classes = tensor.shape[2]
    if isinstance(classes, int) and step.blank >= classes:
        yield f"ctc's blank is class {step.blank}, and {step.output!r} has {classes} classes"
    if isinstance(classes, int) and step.tokens and classes != len(step.tokens) + 1:
        yield f"ctc has {len(step.tokens)} tokens and a blank, but {step.output!r} has {classes} classes"


def _detect_faults(step: Detect, outputs: dict[str, TensorSpec]) -> Iterator[str]:
    for name in _reads(step):
        rank = len(outputs[name].shape)
        if rank != 3:
            yield f"detect reads [rows, boxes, numbers], but {name!r} has a rank of {rank}"
            return
    if step.sigmoid and step.softmax:
        yield "detect has sigmoid and softmax: choose the one of training"
    width = outputs[step.boxes].shape[1 if step.columns else 2]
    if step.scores is not None:
        classes = outputs[step.scores].shape[1 if step.columns else 2]
        if isinstance(width, int) and width != 4:
            yield f"detect reads four numbers a box from {step.boxes!r}, which has {width}"
    else:
        before = 5 if step.objectness else 4
        classes = width - before if isinstance(width, int) else width
    if isinstance(classes, int) and (classes < 1 or (step.labels and classes != len(step.labels))):
        yield f"detect has {len(step.labels)} labels for {classes} classes"
