"""Style sheet, script and icon: read once, served under an address that changes with their content."""

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

router = APIRouter()

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {
    path.name: path.read_bytes()
    for path in (Path(__file__).parent / "static").iterdir()
    if path.suffix in _TYPES
}
VERSIONS = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in _FILES.items()}
FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/static/{name}")
async def asset(request: Request, name: str) -> Response:
    content = _FILES.get(name)
    if content is None:
        raise HTTPException(404)
    current = request.query_params.get("v") == VERSIONS[name]
    headers = {"cache-control": FOR_EVER if current else "no-cache"}
    return Response(content, headers=headers, media_type=_TYPES[Path(name).suffix])
