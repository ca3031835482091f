"""compile-tensorrt: an ONNX file → one TensorRT engine, strongly typed: its precision is that of the file.

TensorRT for RTX builds without a card for the capability that is asked for. TensorRT itself times its kernels
on the card, so that equal bytes come out with equal timings only: they are kept beside the engine, and
`timing_key` names what they hold for.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.data.samples import Sample, read_samples
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import Digest, TargetName
from registry.contract.versions import Signature
from registry.contract.wire import Wire, sha256_of
from serving.runtimes.bundle import pack
from serving.runtimes.cuda import Card
from serving.runtimes.errors import ProviderUnavailable, RuntimeMissing
from serving.runtimes.tensorrt import PLAN, Kind, import_tensorrt, listener

ENGINE = "model.tensorrt"
TIMINGS = "timings.cache"
SOURCE_TARGET = "ort.cpu"
# The batch that kernels are chosen for, where the contract allows as many rows.
BEST_ROWS = 8


class Profile(Wire):
    """Of one input: the least, the best and the largest shape."""

    least: tuple[int, ...]
    best: tuple[int, ...]
    most: tuple[int, ...]


class CompileTensorRtParameters(Wire):
    target: TargetName
    max_rows: int


class CompileTensorRtResult(StepResult):
    """`timing_key`: timings made elsewhere hold here when their key is the same. `verified`: it was built
    beside a card of its own capability."""

    tool: str
    profiles: dict[str, Profile]
    timing_key: Digest
    verified: bool


def run(parameters: CompileTensorRtParameters, inputs: Inputs, out: Path) -> CompileTensorRtResult:
    kind, capability = parts_of(parameters.target)
    try:
        tensorrt = import_tensorrt(kind)
    except RuntimeMissing as error:
        raise Refused(str(error)) from error
    driver = _driver(kind, capability)
    with opened(inputs["model"], SOURCE_TARGET) as source:
        signature = source.signature
    profiles = profiles_of(signature, read_samples(inputs["sample"]), parameters.max_rows)
    timings = inputs["timings"].read_bytes() if "timings" in inputs else b""
    with warnings.catch_warnings():
        # Of timings, which TensorRT for RTX takes and ignores.
        warnings.simplefilter("ignore", DeprecationWarning)
        plan, kept = _build(tensorrt, kind, capability, inputs["model"], profiles, timings)
    pack(out / ENGINE, signature, {PLAN: plan})
    (out / TIMINGS).write_bytes(kept)
    ranges = "; ".join(f"{name} {_span(profile)}" for name, profile in profiles.items())
    unseen = "" if driver else "; unverified: it never ran on a card"
    return CompileTensorRtResult(
        says=f"by {kind} {tensorrt.__version__} for {capability}; {ranges}{unseen}",
        tool=f"{kind} {tensorrt.__version__}",
        profiles=profiles,
        timing_key=timing_key(
            _digest(inputs["model"]), f"{kind} {tensorrt.__version__}", capability, driver, profiles
        ),
        verified=bool(driver),
    )


def parts_of(target: str) -> tuple[Kind, str]:
    """`tensorrt.sm_90` → its library and its compute capability. Raises Refused."""
    kind, _, capability = target.partition(".")
    if kind not in ("tensorrt", "tensorrt_rtx") or not capability.startswith("sm_"):
        raise Refused(
            f"{target} is no target of TensorRT; write tensorrt.sm_90 or tensorrt_rtx.sm_89, with the "
            "compute capability of the card"
        )
    return ("tensorrt" if kind == "tensorrt" else "tensorrt_rtx"), capability


def timing_key(
    model: Digest, tool: str, capability: str, driver: str, profiles: Mapping[str, Profile]
) -> Digest:
    """What the timings of kernels depend on."""
    return sha256_of(
        {
            "model": model,
            "tool": tool,
            "capability": capability,
            "driver": driver,
            "profiles": {name: profile.model_dump(mode="json") for name, profile in profiles.items()},
        }
    )


def profiles_of(signature: Signature, samples: Sequence[Sample], max_rows: int) -> dict[str, Profile]:
    """One row to `max_rows`; other axes that vary: 1 to the largest that the sample holds. Larger inputs are
    refused when they come, so the sample should hold the largest there are."""
    found = {}
    for spec in signature.inputs:
        seen = [sample.tensors[spec.name].shape for sample in samples]
        least, best, most = [], [], []
        for axis, size in enumerate(spec.shape):
            if isinstance(size, int):
                low = middle = high = size
            elif axis == 0:
                low, middle, high = 1, min(BEST_ROWS, max_rows), max_rows
            else:
                sizes = sorted(shape[axis] for shape in seen)
                low, middle, high = 1, sizes[len(sizes) // 2], sizes[-1]
            least.append(low)
            best.append(middle)
            most.append(high)
        found[spec.name] = Profile(least=tuple(least), best=tuple(best), most=tuple(most))
    return found


def _driver(kind: Kind, capability: str) -> str:
    """CUDA of the card that is here; empty where there is none, which TensorRT for RTX does without.

    Raises Refused.
    """
    try:
        card = Card()
    except ProviderUnavailable as error:
        if kind == "tensorrt_rtx":
            return ""
        raise Refused(
            f"TensorRT times its kernels on the card that it builds for ({capability}), and there is none: "
            f"{error}"
        ) from error
    try:
        if card.capability == capability:
            return card.driver
        if kind == "tensorrt_rtx":
            return ""
        raise Refused(f"this machine's card is {card.capability}: build {capability} where such a card is")
    finally:
        card.close()


def _build(
    tensorrt: Any,
    kind: Kind,
    capability: str,
    model: Path,
    profiles: Mapping[str, Profile],
    timings: bytes,
) -> tuple[bytes, bytes]:
    """The plan, and the timings after it. Raises Refused."""
    told = listener(tensorrt)
    builder = tensorrt.Builder(told)
    flags = 1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(flags)
    parser = tensorrt.OnnxParser(network, told)
    if not parser.parse(model.read_bytes()):
        reasons = "; ".join(parser.get_error(at).desc() for at in range(parser.num_errors))
        raise Refused(
            f"TensorRT can't read the model: {reasons[:400]}; a model that was quantised for the CPU is none "
            "for TensorRT, and text belongs into the version's pre-processing"
        )
    config = builder.create_builder_config()
    if kind == "tensorrt_rtx":
        _aim(tensorrt, config, capability)
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        profile.set_shape(name, shapes.least, shapes.best, shapes.most)
    config.add_optimization_profile(profile)
    cache = config.create_timing_cache(timings)
    config.set_timing_cache(cache, False)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise Refused(f"TensorRT can't build the model: {'; '.join(told.told)[:400] or 'it says no more'}")
    return bytes(plan), bytes(cache.serialize() or b"")


def _aim(tensorrt: Any, config: Any, capability: str) -> None:
    """Builds for this capability, whatever card is here. Raises Refused."""
    name = capability.replace("sm_", "SM")
    known = tensorrt.ComputeCapability.__members__
    if name not in known:
        names = ", ".join(one.replace("SM", "sm_") for one in known if one.startswith("SM"))
        raise Refused(f"TensorRT for RTX doesn't build for {capability}; it builds for {names}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(known[name], 0)


def _digest(path: Path) -> Digest:
    with path.open("rb") as file:
        return f"sha256-{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _span(profile: Profile) -> str:
    return " to ".join("×".join(map(str, shape)) for shape in (profile.least, profile.most))


STEP = Step(
    name="compile-tensorrt",
    revision=1,
    requires=("model", "sample"),
    accepts=("timings",),
    outputs=(ENGINE, TIMINGS),
    parameters=CompileTensorRtParameters,
    result=CompileTensorRtResult,
    run=run,
)
