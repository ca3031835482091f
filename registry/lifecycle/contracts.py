"""Is a version's contract consistent in itself and with its files? Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from registry.contract.pipeline import ByteWindow, Classify, JsonTensors, Regress, Tensors
from registry.contract.versions import Observable, TensorSpec, VersionContract


def contract_faults(contract: VersionContract, paths: Sequence[str]) -> tuple[str, ...]:
    """Sentences that say what does not fit. `paths`: the files of the version's manifest."""
    signature = contract.signature
    return (
        *_signature_faults("inputs", signature.inputs),
        *_signature_faults("outputs", signature.outputs),
        *_batch_faults(contract),
        *_pre_faults(contract),
        *_post_faults(contract),
        *_observable_faults(contract),
        *_golden_faults(contract, paths),
    )


def _twice(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return sorted({name for name in listed if listed.count(name) > 1})


def _signature_faults(side: str, tensors: Sequence[TensorSpec]) -> Iterator[str]:
    if not tensors:
        yield f"the signature has no {side}"
    for name in _twice(tensor.name for tensor in tensors):
        yield f"the signature's {side} name {name!r} twice"


def _batch_faults(contract: VersionContract) -> Iterator[str]:
    tensors = (*contract.signature.inputs, *contract.signature.outputs)
    for tensor in tensors:
        if not tensor.shape:
            yield f"{tensor.name!r} has no batch axis; the first dimension of every tensor is the batch"
    axes = {tensor.shape[0] for tensor in tensors if tensor.shape}
    fixed = sorted(axis for axis in axes if isinstance(axis, int))
    if fixed and contract.batch.max_rows > 1:
        yield (
            f"the batch axis is fixed to {fixed[0]}, so rows can't be batched: name the axis "
            "(for example 'batch'), or set batch.max_rows to 1"
        )
    names = sorted(axis for axis in axes if isinstance(axis, str))
    if len(names) > 1:
        yield f"the batch axis has several names: {', '.join(names)}"


def _pre_faults(contract: VersionContract) -> Iterator[str]:
    inputs = [tensor.name for tensor in contract.signature.inputs]
    made: list[str] = []
    for step in contract.pipeline.pre or (JsonTensors(),):
        match step:
            case ByteWindow():
                made.append(step.output)
            case JsonTensors():
                made.extend(inputs)
            case _:
                assert_never(step)
    if sorted(made) != sorted(inputs):
        yield f"pre-processing makes {', '.join(made)}, but the inputs are {', '.join(inputs) or 'none'}"


def _post_faults(contract: VersionContract) -> Iterator[str]:
    outputs = {tensor.name: tensor for tensor in contract.signature.outputs}
    for step in contract.pipeline.post:
        if isinstance(step, Tensors):
            continue
        tensor = outputs.get(step.output)
        if tensor is None:
            yield f"{step.kind} reads {step.output!r}; the outputs are {', '.join(outputs) or 'none'}"
        elif isinstance(step, Classify) and step.labels:
            classes = tensor.shape[-1] if len(tensor.shape) > 1 else None
            if isinstance(classes, int) and classes != len(step.labels):
                yield f"classify has {len(step.labels)} labels, but {step.output!r} has {classes} classes"
    for step in contract.pipeline.post:
        if isinstance(step, Classify):
            for label in _twice(step.labels):
                yield f"classify lists the label {label!r} twice"
    for field in _twice(_fields(contract)):
        yield f"two post-processing steps write {field!r}"


def _fields(contract: VersionContract) -> list[str]:
    """What an answer holds."""
    fields: list[str] = []
    for step in contract.pipeline.post or (Tensors(),):
        match step:
            case Classify():
                fields += ["label", "score", "index", "top"]
            case Regress():
                fields.append("value")
            case Tensors():
                fields += [tensor.name for tensor in contract.signature.outputs]
            case _:
                assert_never(step)
    return fields


def _observable_faults(contract: VersionContract) -> Iterator[str]:
    for name in _twice(observable.name for observable in contract.observables):
        yield f"two observables have the name {name!r}"
    fields = _fields(contract)
    for observable in contract.observables:
        if observable.source not in fields:
            yield (
                f"the observable {observable.name!r} reads {observable.source!r}; "
                f"an answer has {', '.join(fields)}"
            )
        yield from _bin_faults(observable)


def _bin_faults(observable: Observable) -> Iterator[str]:
    name = observable.name
    for label in _twice(observable.labels):
        yield f"the observable {name!r} lists the label {label!r} twice"
    if observable.kind != "class" and observable.labels:
        yield f"the observable {name!r} is a {observable.kind} and has labels; only a class has them"
    if observable.kind in ("class", "score") and observable.edges:
        yield f"the observable {name!r} is a {observable.kind}: its bins are fixed, leave edges out"
    if list(observable.edges) != sorted(set(observable.edges)):
        yield f"the edges of the observable {name!r} do not ascend"


def _golden_faults(contract: VersionContract, paths: Sequence[str]) -> Iterator[str]:
    if contract.golden is not None and contract.golden not in paths:
        yield (
            f"golden names {contract.golden!r}, which is no file of this version; "
            f"the files are {', '.join(paths[:10])}"
        )
