"""Is a version's contract consistent in itself and with its files? Pure."""

from collections.abc import Iterable, Iterator, Sequence

from registry.contract.versions import Observable, SourceOptions, TensorSpec, VersionContract
from registry.lifecycle.answers import answer_fields, post_faults, source_fault
from registry.lifecycle.pipelines import file_faults, pre_faults


def is_servable(contract: VersionContract) -> bool:
    """Whether it says what goes in and what comes out. One that doesn't can be kept, never built."""
    return bool(contract.signature.inputs and contract.signature.outputs)


def contract_faults(contract: VersionContract, paths: Sequence[str]) -> tuple[str, ...]:
    """Sentences that say what does not fit. `paths`: the files of the version's manifest."""
    signature = contract.signature
    return (
        *_signature_faults("inputs", signature.inputs),
        *_signature_faults("outputs", signature.outputs),
        *_batch_faults(contract),
        *pre_faults(contract),
        *post_faults(contract),
        *file_faults(contract, paths),
        *_observable_faults(contract),
        *_golden_faults(contract, paths),
        *_source_faults(contract.source, paths),
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


def _observable_faults(contract: VersionContract) -> Iterator[str]:
    for name in _twice(observable.name for observable in contract.observables):
        yield f"two observables have the name {name!r}"
    fields = answer_fields(contract)
    for observable in contract.observables:
        fault = source_fault(observable, fields)
        if fault is not None:
            yield fault
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


def _source_faults(source: SourceOptions, paths: Sequence[str]) -> Iterator[str]:
    folders = {path.rpartition("/")[0] for path in paths}
    if source.file is not None and source.file not in paths and source.file.rstrip("/") not in folders:
        yield (
            f"source.file names {source.file!r}, which is no file of this version; "
            f"the files are {', '.join(paths[:10])}"
        )
    module = (source.entry or "").partition(":")[0].replace(".", "/")
    if module and not {f"{module}.py", f"{module}/__init__.py"} & set(paths):
        yield f"source.entry names the module {module!r}, and this version has no file {module}.py"
