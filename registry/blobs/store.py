"""The object store: staging keys, final keys, presigned URLs. boto3 in threads, so the loop never waits."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from registry.errors import Unavailable
from registry.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

TIMEOUT_S = 3
COPY_TIMEOUT_S = 900


@dataclass(frozen=True)
class ArrivedPart:
    number: int
    size: int
    etag: str
    at: datetime


class StagingChanged(Exception):
    """The staging object is no longer the one that was verified."""


@contextmanager
def _told_as_unavailable() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise Unavailable(
            f"the object store does not answer: {error}",
            "check S3_ENDPOINT_URL and that the store runs; try again shortly",
            retry_after_s=2,
        ) from error


class BlobStore:
    """Final keys are the digests themselves (no slashes); staging keys are `staging-<upload id>`."""

    def __init__(self, settings: Settings) -> None:
        self.bucket = settings.s3_bucket
        self._presign_s = settings.presign_s
        self._s3 = self._client(settings, TIMEOUT_S)
        self._slow_s3 = self._client(settings, COPY_TIMEOUT_S)

    @staticmethod
    def _client(settings: Settings, timeout_s: int) -> "S3Client":
        return boto3.client(
            "s3",
            endpoint_url=settings.s3_endpoint_url,
            aws_access_key_id=settings.s3_access_key.get_secret_value(),
            aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
            region_name=settings.s3_region,
            config=Config(
                signature_version="s3v4",
                connect_timeout=TIMEOUT_S,
                read_timeout=timeout_s,
                retries={"max_attempts": 1},
                s3={"addressing_style": "path"},
                max_pool_connections=32,
            ),
        )

    async def _run(self, work: Callable[[], T]) -> T:
        with _told_as_unavailable():
            return await asyncio.to_thread(work)

    async def ensure_bucket(self) -> None:
        """Creates the bucket where it is missing. Raises Unavailable."""

        def work() -> None:
            try:
                self._s3.head_bucket(Bucket=self.bucket)
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                    raise
                self._s3.create_bucket(Bucket=self.bucket)

        await self._run(work)

    async def begin(self, staging_key: str) -> str:
        """Starts a multipart upload; the answer is the store's id of it."""
        return await self._run(
            lambda: self._s3.create_multipart_upload(Bucket=self.bucket, Key=staging_key)["UploadId"]
        )

    def part_url(self, staging_key: str, store_id: str, number: int) -> str:
        """A presigned PUT of one part. Signing is local: no request is made."""
        return self._s3.generate_presigned_url(
            "upload_part",
            Params={"Bucket": self.bucket, "Key": staging_key, "UploadId": store_id, "PartNumber": number},
            ExpiresIn=self._presign_s,
        )

    async def arrived(self, staging_key: str, store_id: str) -> list[ArrivedPart] | None:
        """The parts that the store holds; None when it knows no such upload (any more).

        Some stores list every transmission of a part, so a number may come more than once.
        """

        def work() -> list[ArrivedPart] | None:
            pages = self._s3.get_paginator("list_parts").paginate(
                Bucket=self.bucket, Key=staging_key, UploadId=store_id
            )
            try:
                return [
                    ArrivedPart(part["PartNumber"], part["Size"], part["ETag"], part["LastModified"])
                    for page in pages
                    for part in page.get("Parts", [])
                ]
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") != "NoSuchUpload":
                    raise
                return None

        return await self._run(work)

    async def complete(self, staging_key: str, store_id: str, parts: list[ArrivedPart]) -> None:
        await self._run(
            lambda: self._s3.complete_multipart_upload(
                Bucket=self.bucket,
                Key=staging_key,
                UploadId=store_id,
                MultipartUpload={"Parts": [{"PartNumber": part.number, "ETag": part.etag} for part in parts]},
            )
        )

    async def size(self, key: str) -> int | None:
        """Size of an object in bytes; None: it does not exist."""

        def work() -> int | None:
            try:
                return self._s3.head_object(Bucket=self.bucket, Key=key)["ContentLength"]
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                    raise
                return None

        return await self._run(work)

    async def abort(self, staging_key: str, store_id: str) -> None:
        """Forgets a multipart upload; one that is gone already is no error."""

        def work() -> None:
            try:
                self._s3.abort_multipart_upload(Bucket=self.bucket, Key=staging_key, UploadId=store_id)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") != "NoSuchUpload":
                    raise

        await self._run(work)

    async def promote(self, staging_key: str, digest: str, etag: str) -> None:
        """Copies the verified staging object to its final key, if it still is the one with `etag`.

        Raises StagingChanged. The copy is the store's own; no byte passes through this process.
        """

        def work() -> None:
            head = self._s3.head_object(Bucket=self.bucket, Key=staging_key)
            if head["ETag"].strip('"') != etag.strip('"'):
                raise StagingChanged(f"{staging_key} has ETag {head['ETag']}, verified was {etag}")
            self._slow_s3.copy(
                {"Bucket": self.bucket, "Key": staging_key},
                self.bucket,
                digest,
                ExtraArgs={"CopySourceIfMatch": head["ETag"]},
                Config=TransferConfig(multipart_threshold=1024**3, multipart_chunksize=1024**3),
            )

        await self._run(work)

    async def delete(self, key: str) -> None:
        await self._run(lambda: self._s3.delete_object(Bucket=self.bucket, Key=key) and None)

    def url(self, key: str) -> str:
        """A presigned GET. Signing is local: no request is made."""
        return self._s3.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=self._presign_s
        )

    async def probe(self) -> None:
        """Raises Unavailable when the store does not answer."""
        await self._run(lambda: self._s3.head_bucket(Bucket=self.bucket) and None)

    def close(self) -> None:
        self._s3.close()
        self._slow_s3.close()
