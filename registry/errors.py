"""What use cases raise. Each one is a problem document at the edge, and says how to mend it."""

from collections.abc import Iterable

from registry.contract.problems import ProblemType


class Refusal(Exception):
    """A request that can't be granted: `detail` says what is wrong with what, `hint` how to mend it."""

    kind = ProblemType.INVALID
    status = 422
    title = "The request can't be granted"

    def __init__(
        self, detail: str, hint: str, reasons: Iterable[str] = (), retry_after_s: int | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.reasons = tuple(reasons)
        self.retry_after_s = retry_after_s


class Invalid(Refusal):
    """The input is wrong."""


class NotFound(Refusal):
    kind, status, title = ProblemType.NOT_FOUND, 404, "Not found"


class Unauthenticated(Refusal):
    kind, status, title = ProblemType.UNAUTHENTICATED, 401, "Who are you?"


class Forbidden(Refusal):
    kind, status, title = ProblemType.FORBIDDEN, 403, "Not allowed"


class Conflict(Refusal):
    kind, status, title = ProblemType.CONFLICT, 409, "Conflict"


class Referenced(Refusal):
    kind, status, title = ProblemType.REFERENCED, 409, "Still referenced"


class GuardFailed(Refusal):
    kind, status, title = ProblemType.GUARD_FAILED, 409, "A guard speaks against it"


class Pinned(Refusal):
    kind, status, title = ProblemType.PINNED, 409, "Pinned"


class Fenced(Refusal):
    kind, status, title = ProblemType.FENCED, 409, "The lease is gone"


class StaleRevision(Refusal):
    kind, status, title = ProblemType.STALE_REVISION, 412, "Changed by someone else"


class PreconditionRequired(Refusal):
    kind, status, title = ProblemType.PRECONDITION_REQUIRED, 428, "If-Match is required"


class IdempotencyMismatch(Refusal):
    kind, status, title = ProblemType.IDEMPOTENCY_MISMATCH, 422, "Idempotency key reused"


class Gone(Refusal):
    kind, status, title = ProblemType.GONE, 410, "No longer kept"


class TooLarge(Refusal):
    kind, status, title = ProblemType.TOO_LARGE, 413, "Too large"


class Unavailable(Refusal):
    kind, status, title = ProblemType.UNAVAILABLE, 503, "Not available now"
