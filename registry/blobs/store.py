"""The object store: staging keys, final keys, presigned URLs. boto3 in threads, so the loop never waits."""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from registry.blobs.pool import StorePool
from registry.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

T = TypeVar("T")
Marker = tuple[str, str]

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 2
# Of a whole call, so that its refusal is there within 3 s.
LIMIT_S = 2.5
COPY_TIMEOUT_S = 900
THREADS = 12
COPY_THREADS = 4
PART_THREADS = 8
PART_TIMEOUT_S = 60
CHUNK = 1 << 20


@dataclass(frozen=True)
class ArrivedPart:
    number: int
    size: int
    etag: str
    at: datetime


@dataclass(frozen=True)
class StoredObject:
    key: str
    size: int
    at: datetime


@dataclass(frozen=True)
class BegunUpload:
    key: str
    store_id: str
    at: datetime


class StagingChanged(Exception):
    """The staging object is no longer the one that was verified."""


class BlobStore:
    """Final keys are the digests themselves (no slashes), or `<digest>.<n>` once that was given up; staging
    keys are `staging-<upload id>`."""

    def __init__(self, settings: Settings) -> None:
        self.bucket = settings.s3_bucket
        self._presign_s = settings.presign_s
        self._s3 = self._client(settings, READ_TIMEOUT_S)
        self._slow_s3 = self._client(settings, COPY_TIMEOUT_S)
        self._pool = StorePool(THREADS, LIMIT_S)
        self._copies = StorePool(COPY_THREADS, COPY_TIMEOUT_S)
        self._parts = StorePool(PART_THREADS, PART_TIMEOUT_S)

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
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=timeout_s,
                retries={"total_max_attempts": 2},
                s3={"addressing_style": "path"},
                max_pool_connections=32,
            ),
        )

    async def _run(self, work: Callable[[], T]) -> T:
        """Raises Unavailable."""
        return await self._pool.run(work)

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

    def whole_url(self, staging_key: str) -> str:
        """A presigned PUT of a whole object. Signing is local: no request is made."""
        return self._s3.generate_presigned_url(
            "put_object", Params={"Bucket": self.bucket, "Key": staging_key}, ExpiresIn=self._presign_s
        )

    async def read(self, key: str, size: int) -> bytes | None:
        """An object of `size` bytes, or of one more where it is longer; None: it does not exist."""

        def work() -> bytes | None:
            try:
                with self._s3.get_object(Bucket=self.bucket, Key=key)["Body"] as body:
                    return body.read(size + 1)
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                    raise
                return None

        return await self._run(work)

    async def write(self, key: str, content: bytes, sha256: bytes) -> None:
        """A whole object; the store compares what arrives with the digest."""
        checksum = base64.b64encode(sha256).decode()
        await self._run(
            lambda: (
                self._s3.put_object(Bucket=self.bucket, Key=key, Body=content, ChecksumSHA256=checksum)
                and None
            )
        )

    async def send_part(self, staging_key: str, store_id: str, number: int, content: bytes) -> None:
        """One part that comes through this process, from clients that know no presigned URLs."""
        await self._parts.run(
            lambda: (
                self._slow_s3.upload_part(
                    Bucket=self.bucket,
                    Key=staging_key,
                    UploadId=store_id,
                    PartNumber=number,
                    Body=content,
                )
                and None
            )
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

    async def promote(self, staging_key: str, key: str, etag: str) -> None:
        """Copies the verified staging object to its final key, if it still is the one with `etag`.

        Raises StagingChanged. The copy is the store's own; no byte passes through this process.
        """

        head = await self._run(lambda: self._s3.head_object(Bucket=self.bucket, Key=staging_key))
        if head["ETag"].strip('"') != etag.strip('"'):
            raise StagingChanged(f"{staging_key} has ETag {head['ETag']}, verified was {etag}")

        def work() -> None:
            self._slow_s3.copy(
                {"Bucket": self.bucket, "Key": staging_key},
                self.bucket,
                key,
                ExtraArgs={"CopySourceIfMatch": head["ETag"]},
                Config=TransferConfig(multipart_threshold=1024**3, multipart_chunksize=1024**3),
            )

        await self._copies.run(work)

    async def delete(self, key: str) -> None:
        await self._run(lambda: self._s3.delete_object(Bucket=self.bucket, Key=key) and None)

    async def delete_all(self, keys: list[str]) -> list[str]:
        """Deletes objects, 1000 at most; gives the keys that are surely gone."""

        def work() -> list[str]:
            objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in keys]
            answer = self._s3.delete_objects(Bucket=self.bucket, Delete={"Objects": objects})
            failed = {error.get("Key") for error in answer.get("Errors", [])}
            return [key for key in keys if key not in failed]

        return await self._run(work) if keys else []

    async def objects(self, after: str, limit: int) -> list[StoredObject]:
        """By key, from the one behind `after`; fewer than `limit` (1000 at most): that was the end."""

        def work() -> list[StoredObject]:
            answer = self._s3.list_objects_v2(Bucket=self.bucket, StartAfter=after, MaxKeys=limit)
            return [
                StoredObject(found["Key"], found["Size"], found["LastModified"])
                for found in answer.get("Contents", [])
            ]

        return await self._run(work)

    async def begun(self, after: Marker, limit: int) -> tuple[list[BegunUpload], Marker | None]:
        """Multipart uploads that were neither completed nor aborted, in the store's own order, and the marker
        of the rest; None: that was the end."""

        def work() -> tuple[list[BegunUpload], Marker | None]:
            answer = self._s3.list_multipart_uploads(
                Bucket=self.bucket,
                Prefix="staging-",
                KeyMarker=after[0],
                UploadIdMarker=after[1],
                MaxUploads=limit,
            )
            found = [
                BegunUpload(upload["Key"], upload["UploadId"], upload["Initiated"])
                for upload in answer.get("Uploads", [])
            ]
            # Some stores order by id and give no key to go on from.
            marker = (answer.get("NextKeyMarker", ""), answer.get("NextUploadIdMarker", ""))
            return found, marker if answer.get("IsTruncated") and any(marker) else None

        return await self._run(work)

    def url(self, key: str) -> str:
        """A presigned GET. Signing is local: no request is made."""
        return self._s3.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=self._presign_s
        )

    async def elsewhere(self, bucket: str, prefix: str, limit: int) -> list[StoredObject]:
        """What another bucket of this store holds below a prefix. Raises Unavailable."""

        def work() -> list[StoredObject]:
            pages = self._slow_s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, PaginationConfig={"MaxItems": limit}
            )
            return [
                StoredObject(item["Key"], item["Size"], item["LastModified"])
                for page in pages
                for item in page.get("Contents", [])
            ]

        return await self._parts.run(work)

    async def read_elsewhere(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        """The bytes of an object of another bucket, piece by piece. Raises Unavailable."""
        body = await self._parts.run(lambda: self._slow_s3.get_object(Bucket=bucket, Key=key)["Body"])
        try:
            while chunk := await self._parts.run(lambda: body.read(CHUNK)):
                yield chunk
        finally:
            body.close()

    async def probe(self) -> None:
        """Raises Unavailable when the store does not answer."""
        await self._run(lambda: self._s3.head_bucket(Bucket=self.bucket) and None)

    def close(self) -> None:
        self._pool.close()
        self._copies.close()
        self._parts.close()
        self._s3.close()
        self._slow_s3.close()
