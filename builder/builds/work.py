"""What a build is made from, and what its parts hand to each other."""

from dataclasses import dataclass

from builder.builds import facts
from builder.builds.inputs import FilesInput, Input
from builder.builds.targets import place_of_target
from builder.data.prepare import FILES
from builder.frontends.plan import Plan, plan
from builder.judgement.metrics import judge_of
from builder.steps.step import Refused
from registry.contract.datasets import Dataset, RowForm
from registry.contract.engines import CalibrationReport, PruningReport
from registry.contract.identity import Digest, TargetName
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import Version, VersionContract
from registry.contract.wire import sha256_of


@dataclass(frozen=True, slots=True)
class Work:
    """All that a build is made from."""

    version: Version
    recipe: Recipe
    calibration: Dataset | None
    validation: Dataset | None
    threads: int
    allow_code: bool = False

    @property
    def rows(self) -> Dataset | None:
        """What shapes, parity and speed are tried on."""
        return self.validation or self.calibration

    @property
    def golden(self) -> Digest | None:
        """Of the file that the contract names."""
        name = self.version.contract.golden
        return next((file.digest for file in self.version.files if file.path == name), None)

    @property
    def files(self) -> dict[str, Input]:
        """The step input with what the pipeline reads; nothing where it reads no file."""
        return {FILES: FilesInput.of_pipeline(self.version)} if self.version.contract.pipeline.files else {}

    @property
    def classes(self) -> str | None:
        """The output whose highest score is the answer's label."""
        steps = self.version.contract.pipeline.post
        return next((step.output for step in steps if isinstance(step, Classify)), None)


@dataclass(frozen=True, slots=True)
class Source:
    """The checked model that engines are held against. `target`: what it is loaded for. `judgements`: its
    answers on validation rows."""

    model: Digest
    sample: Digest
    made_up: bool
    batchable: bool
    warnings: tuple[str, ...]
    judgements: Digest | None
    target: TargetName


@dataclass(frozen=True, slots=True)
class Made:
    """An engine before its proofs. `calibrated`: fingerprints of the rows that it was calibrated on. `base`:
    the model that was made smaller; `onnx`: that as an ONNX file, where the engine is compiled of one."""

    digest: Digest
    quantised: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    calibrated: Digest | None = None
    warnings: tuple[str, ...] = ()
    base: Digest | None = None
    onnx: Digest | None = None
    calibration: CalibrationReport | None = None
    pruning: PruningReport | None = None


def check_recipe(work: Work) -> None:
    """Raises Refused for what no step could do, before any work is done."""
    for target in work.recipe.targets:
        place_of_target(target, work.allow_code)
    if Precision.INT8_STATIC in work.recipe.precisions and work.calibration is None:
        raise Refused(
            "int8-static needs ranges of real inputs; register a calibration set and name it in the recipe "
            "(calibration)"
        )
    judge_of(work.version.contract)
    golden_path = work.version.contract.golden
    if golden_path is not None and work.golden is None:
        raise Refused(f"the contract names golden pairs in {golden_path!r}, which is no file of the version")


def engine_name(precision: Precision, target: TargetName) -> str:
    """How steps and reasons name an engine: `int8-static/ort.cpu`."""
    return f"{precision.value}/{target}"


def engine_key(work: Work, precision: Precision, target: TargetName) -> Digest:
    """Version, recipe resolved to one precision and one target, tools and machine."""
    recipe = work.recipe.model_copy(update={"precisions": (precision,), "targets": (target,)})
    return sha256_of(
        {
            "version": work.version.digest,
            "recipe": recipe.model_dump(mode="json", exclude={"limits"}),
            "tools": tools(work, target),
            "machine": facts.machine(),
        }
    )


def tools(work: Work, target: TargetName) -> dict[str, str]:
    """Versions of all that a build of this version for this target uses: those of its framework's and its
    runtime's environment too. Raises Refused."""
    framework = facts.tools(source_plan(work).environment)
    environment = place_of_target(target, work.allow_code).environment
    return {**framework, **facts.tools(environment)} if environment else framework


def source_plan(work: Work) -> Plan:
    """What the version's files are. Raises Refused."""
    version = work.version
    files = tuple(file.path for file in version.files if file.path != version.contract.golden)
    return plan(version.framework, files, version.contract.source)


def processing(contract: VersionContract, form: RowForm | None) -> PipelineSpec:
    """What of a pipeline works on rows of this form: training-side tensors go past pre-processing."""
    return PipelineSpec(post=contract.pipeline.post) if form == "tensors" else contract.pipeline


def answering(contract: VersionContract, form: RowForm, *, watched: bool) -> VersionContract:
    """The parts of a contract that answers depend on, with or without what is watched of them: a change of
    the others must not cost a step its cached result."""
    return VersionContract(
        signature=contract.signature,
        pipeline=processing(contract, form),
        observables=contract.observables if watched else (),
        metric=contract.metric,
    )


def saturates() -> bool:
    """U8S8 products are added in 16 bits on x86 without VNNI."""
    found = facts.machine()
    return found["machine"] in ("x86_64", "AMD64") and "vnni" not in found["extensions"]


def saturation_warning(reduce_range: bool) -> tuple[str, ...]:
    if reduce_range or not saturates():
        return ()
    return (
        "measured on a CPU without VNNI, where sums of 8-bit products may saturate: "
        "a CPU with VNNI is faster and may answer a little differently",
    )
