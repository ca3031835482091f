"""Where the files of a version that is being registered are. Pure.

The registry fetches from nowhere but the tracking servers and buckets that its settings name: whoever may
register must not make it read what it can reach and he can't.
"""

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from registry.errors import Invalid
from registry.settings import Settings

ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
INBOX = "inbox"
LONGEST = 2048
HINT = (
    f"let the client leave the files here (an experiment whose artifact location is this registry's "
    f"{ARTIFACTS}/{INBOX}/NAME), or name the place in SLIPWAY_MLFLOW_TRACKING_URLS or "
    "SLIPWAY_MLFLOW_S3_BUCKETS; see docs/mlflow.md"
)

_MODEL_ID = re.compile(r"m-[A-Za-z0-9_-]{1,128}")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True)
class Registered:
    """A version of this registry: `models:/name/3`, or by an alias."""

    model: str
    number: int | None
    alias: str | None


@dataclass(frozen=True)
class Left:
    """Files that the client left here, below `path` (which begins with inbox/)."""

    path: str


@dataclass(frozen=True)
class Logged:
    """MLflow's logged model `models:/m-…`: left here, or known to a tracking server."""

    model_id: str


@dataclass(frozen=True)
class Run:
    """`runs:/RUN/path`: known to a tracking server."""

    run_id: str
    path: str


@dataclass(frozen=True)
class Tracked:
    """A path at a tracking server; `server` None: at whichever is named first."""

    server: str | None
    path: str


@dataclass(frozen=True)
class Bucket:
    bucket: str
    prefix: str


Source = Registered | Left | Logged | Run | Tracked | Bucket


def read(given: str) -> Source:
    """Raises Invalid for what is no place, or one from which nothing is ever read."""
    if not given or len(given) > LONGEST:
        raise Invalid(f"the source has {len(given)} characters", f"send 1 to {LONGEST}")
    url = urlsplit(given)
    match url.scheme:
        case "models":
            return _model(given, url.path)
        case "runs":
            run_id, _, path = url.path.lstrip("/").partition("/")
            if not _RUN_ID.fullmatch(run_id):
                raise Invalid(f"{given!r} names no run", "write runs:/RUN_ID/PATH")
            return Run(run_id, _path(given, path))
        case "mlflow-artifacts" | "http" | "https":
            return _artifacts(given, url.scheme, url.netloc, url.path)
        case "s3":
            return Bucket(url.netloc, _path(given, url.path))
        case _:
            what = (
                "a path of the client's machine" if url.scheme in ("", "file") else f"a {url.scheme} address"
            )
            raise Invalid(f"the source {given!r} is {what}, which this registry does not read", HINT)


def _model(given: str, path: str) -> Source:
    name, slash, number = path.lstrip("/").partition("/")
    if slash and number.isdigit() and len(number) < 10:
        return Registered(name, int(number), None)
    if not slash and "@" in name:
        model, _, alias = name.rpartition("@")
        return Registered(model, None, alias)
    if not slash and _MODEL_ID.fullmatch(name):
        return Logged(name)
    raise Invalid(f"{given!r} names no model", "write models:/NAME/3, models:/NAME@alias or models:/m-…")


def _artifacts(given: str, scheme: str, place: str, path: str) -> Source:
    root, found, rest = path.partition(ARTIFACTS)
    if scheme != "mlflow-artifacts" and not found:
        raise Invalid(f"the source {given!r} is not an address of MLflow artifacts", HINT)
    below = _path(given, rest if found else path)
    if below == INBOX or below.startswith(f"{INBOX}/"):
        return Left(below)
    if not place:
        return Tracked(None, below)
    schemes = ("http", "https") if scheme == "mlflow-artifacts" else (scheme,)
    return Tracked(f"{schemes[0]}://{place}{root if found else ''}", below)


def _path(given: str, path: str) -> str:
    """Without slashes at its ends. Raises Invalid where it could mean another place."""
    plain = unquote(path).strip("/")
    if ".." in plain.split("/") or "\\" in plain or "\0" in plain:
        raise Invalid(f"the source {given!r} leaves its place", "write it without '..' and backslashes")
    return posixpath.normpath(plain) if plain else ""


def server_of(source: Tracked, settings: Settings) -> str:
    """The named server that this is. Raises Invalid."""
    named = settings.mlflow_tracking_urls
    for url in named:
        if source.server is None or _bare(url) == _bare(source.server):
            return url.rstrip("/")
    if source.server is None:
        raise Invalid("no tracking server is named, so there is nothing to copy from", HINT)
    raise Invalid(f"{source.server} is not one of the tracking servers from which models are copied", HINT)


def _bare(url: str) -> str:
    """Host, port and path: a client may have reached the same server by another scheme."""
    parts = urlsplit(url)
    return f"{parts.netloc.lower().rpartition('@')[2]}{parts.path.rstrip('/')}"


def check_allowed(source: Logged | Run | Tracked | Bucket, settings: Settings) -> None:
    """Raises Invalid where the settings don't name the place."""
    match source:
        case Tracked():
            server_of(source, settings)
        case Bucket():
            if source.bucket not in settings.mlflow_s3_buckets:
                raise Invalid(
                    f"s3://{source.bucket} is not one of the buckets from which models are copied", HINT
                )
        case Logged() | Run():
            if not settings.mlflow_tracking_urls:
                what = source.model_id if isinstance(source, Logged) else source.run_id
                raise Invalid(
                    f"no files of {what} were left here, and no tracking server is named that knows it", HINT
                )
