"""What can be wrong with an engine, its environment or its tensors.

Every error carries its facts, so that a caller can answer with them and a person can act on the text.
"""


class RuntimeFault(Exception):
    """Base of all errors of this package. `kind` is stable and travels between processes."""

    kind = "runtime_fault"


class ConflictingRuntimes(RuntimeFault):
    """Two distributions provide the same module, and which one is imported is left to chance."""

    kind = "conflicting_runtimes"

    def __init__(self, module: str, distributions: tuple[str, ...]) -> None:
        self.module = module
        self.distributions = distributions
        names = " and ".join(distributions)
        super().__init__(
            f"{names} are installed together and both provide the module {module!r}: keep exactly one; "
            f"run `pip uninstall {' '.join(distributions)}`, then install the one this machine needs"
        )


class IncompatibleTensorRt(RuntimeFault):
    """ONNX Runtime's provider is linked against another major release than the one that is installed."""

    kind = "incompatible_tensorrt"

    def __init__(self, wanted: str, found: str) -> None:
        self.wanted = wanted
        self.found = found
        super().__init__(
            f"ONNX Runtime's TensorRT provider wants TensorRT {wanted}, and {found or 'none'} is installed: "
            "install the release that it wants, or build for ort.cuda"
        )


class UnknownTarget(RuntimeFault):
    kind = "unknown_target"

    def __init__(self, target: str, known: tuple[str, ...]) -> None:
        self.target = target
        self.known = known
        super().__init__(
            f"no runtime serves the target {target!r}; this program knows {', '.join(known)}: "
            "build the version for one of these"
        )


class NotAModel(RuntimeFault):
    """The file can't be loaded as the kind of model that the runtime takes."""

    kind = "not_a_model"

    def __init__(self, path: str, wanted: str, reason: str) -> None:
        self.path = path
        self.wanted = wanted
        self.reason = reason
        super().__init__(f"{path} is not {wanted} that can be loaded: {reason}")


class ProviderUnavailable(RuntimeFault):
    """The device that was asked for would not do the work."""

    kind = "provider_unavailable"

    def __init__(self, wanted: str, got: tuple[str, ...], mend: str) -> None:
        self.wanted = wanted
        self.got = got
        super().__init__(
            f"{wanted} was asked for, but the work would run on {', '.join(got) or 'nothing'}: {mend}"
        )


class RuntimeMissing(ProviderUnavailable):
    """This environment lacks the package that runs such engines."""

    kind = "runtime_missing"

    def __init__(self, package: str, mend: str) -> None:
        self.package = package
        super().__init__(package, (), mend)
        self.args = (f"this environment has no {package}, which runs such engines: {mend}",)


class NotAllowed(ProviderUnavailable):
    """Loading this engine may run code that came with it, and this process is not meant for that."""

    kind = "not_allowed"

    def __init__(self, target: str, mend: str) -> None:
        super().__init__(target, (), mend)
        self.args = (
            f"engines of {target} may run code of their own when they are loaded, so only a process "
            f"behind walls loads them: {mend}",
        )


class InputError(RuntimeFault, ValueError):
    """A tensor or raw input that the caller has to mend. `what` names the part that is wrong."""

    kind = "input_error"

    def __init__(self, what: str, *, wanted: str, got: str, mend: str) -> None:
        self.what = what
        self.wanted = wanted
        self.got = got
        self.mend = mend
        super().__init__(f"{what}: wanted {wanted}, got {got}; {mend}")


class RunFailed(RuntimeFault):
    """The engine raised while it ran; the inputs had the right names, types and shapes."""

    kind = "run_failed"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the engine failed while it ran: {reason}")


class EngineClosed(RuntimeFault):
    kind = "engine_closed"

    def __init__(self) -> None:
        super().__init__("this engine was closed; load it again to use it")
