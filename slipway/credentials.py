"""Where the registry is and who we are: from the environment, else from what `slipway up` left here."""

import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from registry.client.given import address_of, token_of
from slipway.stack.write import write_private

DEFAULT_URL = "http://127.0.0.1:8080"
FILE = Path(".slipway") / "credentials.json"
# Of a secret that `kept_secret` made: nothing, or a beginning, is what a crash or a full disk left of one.
_BEGINNING = re.compile(r"(?:s|sl|slp|slp_[A-Za-z0-9_-]{0,42})?")


@dataclass(frozen=True)
class Credentials:
    url: str
    token: str = field(repr=False)


def find(start: Path | None = None) -> Credentials:
    """SLIPWAY_URL and SLIPWAY_TOKEN; what they leave open: the nearest .slipway/credentials.json.

    Raises ValueError for an address or a token that can't be one.
    """
    url = address_of(os.environ.get("SLIPWAY_URL") or DEFAULT_URL, "SLIPWAY_URL")
    token = token_of(os.environ.get("SLIPWAY_TOKEN", ""), "SLIPWAY_TOKEN")
    named = bool(os.environ.get("SLIPWAY_URL"))
    kept = None if named and token else _kept(start or Path.cwd())
    if kept is not None and not named:
        url = kept.url
    if kept is not None and not token and url == kept.url:
        token = kept.token
    return Credentials(url, token)


def _kept(start: Path) -> Credentials | None:
    for folder in (start, *start.parents):
        path = folder / FILE
        if path.is_file() and os.access(path, os.R_OK):
            return load(path)
    return None


def load(path: Path) -> Credentials:
    """What `keep` wrote. Raises ValueError, which names the file, for anything else."""
    try:
        held = json.loads(path.read_text())
        url, token = held["url"], held["token"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged: it holds no address and token. Run `slipway up` again, which writes it "
            "anew, or set SLIPWAY_URL and SLIPWAY_TOKEN"
        ) from error
    return Credentials(
        address_of(str(url), f"the url in {path}"), token_of(str(token), f"the token in {path}")
    )


def keep(path: Path, credentials: Credentials) -> None:
    """Readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(asdict(credentials)).encode())


def kept_secret(path: Path) -> str:
    """A random token that stays the same from start to start. Raises ValueError for a file that holds none.

    A file that is empty, or has a beginning of a token alone, counts as absent: no registry has seen that.
    """
    if path.is_file():
        secret = path.read_text().strip()
        if not _BEGINNING.fullmatch(secret):
            return token_of(secret, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    secret = f"slp_{secrets.token_urlsafe(32)}"
    write_private(path, secret.encode())
    return secret
