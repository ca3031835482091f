"""The object store's side of a backup: objects to files and back, each checked by its digest."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from slipway.backup.errors import BackupError
from slipway.backup.manifest import StoredBlob, sha256_of
from slipway.stack import StackAddresses

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THREADS = 4
_CHUNK = 1 << 20
_HINT = "check S3_ENDPOINT_URL and its keys, then run the same command again: what is done is not done twice"


class Bucket:
    """Raises BackupError for whatever the store refuses."""

    def __init__(self, addresses: StackAddresses, region: str) -> None:
        self._name = addresses.bucket
        self._s3: S3Client = boto3.client(
            "s3",
            endpoint_url=addresses.s3_endpoint_url or None,
            aws_access_key_id=addresses.s3_access_key,
            aws_secret_access_key=addresses.s3_secret_key,
            region_name=region,
            config=Config(
                connect_timeout=5,
                read_timeout=60,
                retries={"total_max_attempts": 4, "mode": "standard"},
                s3={"addressing_style": "path"},
                max_pool_connections=THREADS * 4,
            ),
        )

    def close(self) -> None:
        self._s3.close()

    def fetch(self, blob: StoredBlob, folder: Path) -> bool:
        """Into `folder`, under its digest; a file that is there stays. False: the store has no such one."""
        path = folder / blob.digest
        if path.exists() and path.stat().st_size == blob.size:
            return True
        fd, name = tempfile.mkstemp(dir=folder, prefix=".fetching-")
        temporary = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                found = hashlib.sha256()
                body = self._s3.get_object(Bucket=self._name, Key=blob.key)["Body"]
                for piece in body.iter_chunks(_CHUNK):
                    found.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if blob.digest != f"sha256-{found.hexdigest()}":
                raise BackupError(
                    f"the object {blob.key} has the digest sha256-{found.hexdigest()}, not {blob.digest}: "
                    "the object store is damaged. Bring the object back from an earlier backup."
                )
            temporary.replace(path)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                return False
            raise BackupError(f"the object {blob.key} can't be read: {error}; {_HINT}") from error
        except (BotoCoreError, OSError) as error:
            raise BackupError(f"{blob.digest} can't be copied: {error}; {_HINT}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def make(self) -> None:
        """Creates the bucket where it is missing."""
        try:
            self._s3.head_bucket(Bucket=self._name)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise BackupError(f"the bucket {self._name} can't be used: {error}; {_HINT}") from error
            self._s3.create_bucket(Bucket=self._name)
        except BotoCoreError as error:
            raise BackupError(f"the object store does not answer: {error}; {_HINT}") from error

    def put(self, blob: StoredBlob, folder: Path) -> None:
        """From `folder` to its key, unless the store has it."""
        try:
            if self._size(blob.key) != blob.size:
                config = TransferConfig(max_concurrency=THREADS)
                self._s3.upload_file(str(folder / blob.digest), self._name, blob.key, Config=config)
        except (BotoCoreError, ClientError, OSError) as error:
            raise BackupError(f"{blob.digest} can't be stored: {error}; {_HINT}") from error

    def _size(self, key: str) -> int | None:
        try:
            return self._s3.head_object(Bucket=self._name, Key=key)["ContentLength"]
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            return None


def check(blob: StoredBlob, folder: Path) -> None:
    """Raises BackupError unless the file is there and is what it is called."""
    path = folder / blob.digest
    if not path.exists():
        raise BackupError(f"{path} is missing: the backup is not whole. Use another one.")
    if blob.digest != f"sha256-{sha256_of(path)}":
        raise BackupError(f"{path} is damaged: its content has another digest. Use another backup.")
