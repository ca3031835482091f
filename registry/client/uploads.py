"""Calls on uploads and blobs. The procedures that move the bytes are in `transfer`."""

from registry.client.call import Call, path
from registry.contract.uploads import Blob, Upload, UploadCreate
from registry.contract.wire import Command


def create(body: UploadCreate) -> Call[Upload]:
    """An open upload of the same digest by the same token is given again, with what has arrived."""
    return Call("POST", path("uploads"), Upload, body)


def get(upload: str) -> Call[Upload]:
    return Call("GET", path("uploads", upload), Upload)


def complete(upload: str) -> Call[Upload]:
    """open → verifying. 409 names the parts that have not arrived."""
    return Call("POST", path("uploads", upload, "complete"), Upload, Command())


def abort(upload: str) -> Call[Upload]:
    return Call("POST", path("uploads", upload, "abort"), Upload, Command())


def blob(digest: str) -> Call[Blob]:
    return Call("GET", path("blobs", digest, "meta"), Blob)


def delete_blob(digest: str) -> Call[None]:
    """Bytes that nothing refers to. 409 names what does."""
    return Call("DELETE", path("blobs", digest), None)


def content(digest: str) -> Call[None]:
    """Redirects to the bytes at the store: send it with `Client.location`."""
    return Call("GET", path("blobs", digest), None)
