"""RFC 9457 problem documents: every error of every HTTP face has this form."""

from enum import StrEnum

from registry.contract.wire import Wire


class ProblemType(StrEnum):
    """The `type` of a problem is `/problems/<value>`; this is the one list of them."""

    INVALID = "invalid"
    NOT_FOUND = "not-found"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"
    REFERENCED = "referenced"
    GUARD_FAILED = "guard-failed"
    PINNED = "pinned"
    STALE_REVISION = "stale-revision"
    PRECONDITION_REQUIRED = "precondition-required"
    IDEMPOTENCY_MISMATCH = "idempotency-mismatch"
    FENCED = "fenced"
    TOO_LARGE = "too-large"
    GONE = "gone"
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    RATE_LIMITED = "rate-limited"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class FieldError(Wire):
    """One field that is wrong: `where` is a path such as `body.files.0.digest`."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class Problem(Wire):
    """`hint` says how to mend it; `reasons` are guard sentences, word for word."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    request_id: str | None = None
    reasons: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()
