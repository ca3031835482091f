"""What a backup consists of: `backup.json`, written last, so that a directory with one is whole."""

import hashlib
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from slipway.backup.errors import BackupError
from slipway.stack.write import write_private

FORMAT = 1
FILE = "backup.json"
BLOBS = "blobs"
_CHUNK = 1 << 20


class StoredBlob(BaseModel):
    """`key` is where the object store has it, `digest` what the file is called here."""

    digest: str = Field(pattern=r"^sha256-[0-9a-f]{64}$")
    size: int = Field(ge=0)
    key: str


class Manifest(BaseModel):
    """`dump`: the file of pg_dump, with its sha256. `gone`: blobs that were collected while they were to be
    copied; nothing referred to them."""

    format: int = FORMAT
    made_at: datetime
    registry_id: str
    timeline: int
    revision: str
    server: str
    dump: str
    dump_sha256: str
    blobs: tuple[StoredBlob, ...]
    gone: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(blob.size for blob in self.blobs)

    def save(self, directory: Path) -> None:
        write_private(directory / FILE, self.model_dump_json(indent=1).encode())

    @classmethod
    def load(cls, directory: Path) -> "Manifest":
        """Raises BackupError."""
        path = directory / FILE
        try:
            made = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise BackupError(
                f"{directory} holds no whole backup: it has no {FILE}. Name a directory in which "
                "`slipway backup` ended well."
            ) from None
        except ValidationError as error:
            raise BackupError(
                f"{path} is damaged: {error.errors()[0]['msg']}. Use another backup."
            ) from error
        if made.format != FORMAT:
            raise BackupError(
                f"{path} has format {made.format}, this Slipway reads {FORMAT}. Restore with the Slipway "
                "that made it, then upgrade."
            )
        return made


def sha256_of(path: Path) -> str:
    """Hex digits of a file's sha256, read in pieces."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            found.update(piece)
    return found.hexdigest()
