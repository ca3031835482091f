"""The demo's model: the file-type classifier inside the magika wheel, fetched by pip into a cache."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "magika==1.0.3"
MODEL_SHA256 = "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"
MODEL_IN_WHEEL = "magika/models/standard_v3_3/model.onnx"
CONFIG_IN_WHEEL = "magika/models/standard_v3_3/config.min.json"


class AssetError(Exception):
    """The model can't be had; the message says how to mend it."""


@dataclass(frozen=True)
class Assets:
    """`package`: a directory that holds the wheel's own Python code; `labels`: one per output class."""

    model: Path
    package: Path
    labels: tuple[str, ...]
    head: int
    tail: int
    block: int
    pad: int


def cache_dir() -> Path:
    """SLIPWAY_CACHE, or `.cache` beside the sources."""
    given = os.environ.get("SLIPWAY_CACHE")
    return Path(given) if given else Path(__file__).resolve().parents[2] / ".cache"


def fetch(cache: Path | None = None) -> Assets:
    """Downloads once, verifies always. Raises AssetError."""
    home = (cache or cache_dir()) / "magika"
    package = home / "package"
    model, config = package / MODEL_IN_WHEEL, package / CONFIG_IN_WHEEL
    if not model.exists() or _sha256(model) != MODEL_SHA256:
        _unpack(_wheel(home), package)
    if _sha256(model) != MODEL_SHA256:
        raise AssetError(f"{model} is not the model that the demo was made for; remove {home} and try again")
    settings = json.loads(config.read_text())
    return Assets(
        model=model,
        package=package,
        labels=tuple(settings["target_labels_space"]),
        head=settings["beg_size"],
        tail=settings["end_size"],
        block=settings["block_size"],
        pad=settings["padding_token"],
    )


def _wheel(home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    found = sorted(home.glob("magika-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(home), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssetError(f"pip could not fetch {PACKAGE}:\n{done.stderr.strip()}")
        found = sorted(home.glob("magika-*.whl"))
    if not found:
        raise AssetError(f"pip fetched no wheel of {PACKAGE}; a wheel is needed, not a source archive")
    return found[0]


def _unpack(wheel: Path, package: Path) -> None:
    """Only the Python package: the wheel's own command-line program is not needed."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("magika/") and ".." not in name:
                archive.extract(name, package)


def _sha256(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
