"""Strong ETags: the revision of a mutable resource, as If-Match wants it back."""

from fastapi import Response


def tag(response: Response, revision: int) -> None:
    response.headers["etag"] = f'"{revision}"'
