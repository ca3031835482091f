"""JSON logs: one object a line, with the id of the request that it is about, and never a secret."""

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

ACCESS = logging.getLogger("registry.access_log")
# Fields that an access line adds to the common ones, in this order.
FIELDS = ("method", "route", "status", "duration_ms", "principal")

# The last line of defence: nothing should put these into a message in the first place.
_SECRETS = (
    (re.compile(r"\b(slp|sec|whsec)_[A-Za-z0-9_-]{12,}"), r"\1_[hidden]"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 [hidden]"),
    (re.compile(r"(?i)([?&](?:x-amz-[a-z-]*|signature|awsaccesskeyid)=)[^&\s'\"]+"), r"\1[hidden]"),
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@"), r"\1[hidden]@"),
)


def redact(text: str) -> str:
    """`text` without tokens, signatures of presigned URLs, and passwords in addresses."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class JsonLines(logging.Formatter):
    """`at` (UTC), `level`, `logger`, `message`, `request_id`, an access line's fields, `error` with trace."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        about = getattr(record, "request_id", None) or request_id.get()
        if about is not None:
            line["request_id"] = about
        line.update({name: getattr(record, name) for name in FIELDS if hasattr(record, name)})
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def configure() -> None:
    """The whole process logs JSON lines to stderr, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # One line for every call that a page makes would bury everything else.
    logging.getLogger("httpx").setLevel(logging.WARNING)
