"""Where the registry is and who we are: from the environment, else from what `slipway up` left here."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8080"
FILE = Path(".slipway") / "credentials.json"


@dataclass(frozen=True)
class Credentials:
    url: str
    token: str


def find(start: Path | None = None) -> Credentials:
    """SLIPWAY_URL and SLIPWAY_TOKEN; what they leave open: the nearest .slipway/credentials.json."""
    url, token = os.environ.get("SLIPWAY_URL"), os.environ.get("SLIPWAY_TOKEN")
    kept = None if url and token else _kept(start or Path.cwd())
    if kept is not None:
        url, token = url or kept.url, token or (kept.token if not url or url == kept.url else None)
    return Credentials(url or DEFAULT_URL, token or "")


def _kept(start: Path) -> Credentials | None:
    for folder in (start, *start.parents):
        path = folder / FILE
        if path.is_file() and os.access(path, os.R_OK):
            return load(path)
    return None


def load(path: Path) -> Credentials:
    """What `keep` wrote."""
    return Credentials(**json.loads(path.read_text()))


def keep(path: Path, credentials: Credentials) -> None:
    """Readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(credentials), file)


def kept_secret(path: Path) -> str:
    """A random token that stays the same from start to start."""
    if path.is_file():
        return path.read_text().strip()
    path.parent.mkdir(parents=True, exist_ok=True)
    secret = f"slp_{secrets.token_urlsafe(32)}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret)
    return secret
