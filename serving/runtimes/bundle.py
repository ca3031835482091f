"""Engines of several files as one: an archive that compresses nothing and holds agreed names only.

Equal parts give equal bytes, so that an engine's digest says what is in it. Beside the runtime's own files
lies `signature.json`: some formats keep no names of dynamic axes, others no names at all.
"""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from registry.contract.versions import Signature
from serving.runtimes.errors import NotAModel

SIGNATURE = "signature.json"
# The earliest time that an archive can name: when it was made says nothing about what is in it.
_NEVER = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644 << 16


def pack(path: Path, signature: Signature, parts: Mapping[str, bytes]) -> None:
    """Writes `parts` under their names, in their order, behind the signature."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in ((SIGNATURE, signature.model_dump_json().encode()), *parts.items()):
            entry = zipfile.ZipInfo(name, _NEVER)
            entry.external_attr = _FILE_MODE
            entry.create_system = 3
            archive.writestr(entry, content)


def unpack(path: Path, wanted: str, names: Sequence[str]) -> tuple[Signature, tuple[bytes, ...]]:
    """The signature and the parts called `names`. `wanted`: the kind of model, as a refusal names it.

    Raises NotAModel unless these and no others are in it, whole and uncompressed, and FileNotFoundError.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no engine at {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            found = [entry.filename for entry in entries]
            if found != [SIGNATURE, *names]:
                raise NotAModel(
                    str(path), wanted, f"it holds {', '.join(found)[:200]} instead of {', '.join(names)}"
                )
            # Stored as it is, a part is no larger than the file that it lies in.
            packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
            if packed or any(entry.file_size > path.stat().st_size for entry in entries):
                raise NotAModel(str(path), wanted, "its parts are compressed, which engines never are")
            signature = Signature.model_validate_json(archive.read(SIGNATURE))
            return signature, tuple(archive.read(name) for name in names)
    except (zipfile.BadZipFile, ValidationError, EOFError, NotImplementedError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NotAModel(str(path), wanted, first) from error
