"""What is wrong with a list of file names. Names must mean one file on every system they may land on."""

import unicodedata
from collections.abc import Iterable

MAX_SEGMENT_BYTES = 255


def name_fault(path: str) -> str | None:
    """Why this name can't be taken, or None."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        return f"{path!r} holds control characters"
    if "\\" in path:
        return f"{path!r} holds a backslash; write folders with forward slashes"
    if path.startswith("/") or (len(path) > 1 and path[1] == ":"):
        return f"{path!r} is absolute; write it relative to the version's folder"
    segments = path.split("/")
    if ".." in segments:
        return f"{path!r} leaves the version's folder by '..'"
    if "" in segments or "." in segments:
        return f"{path!r} holds an empty segment or '.'"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"{path!r} holds a segment longer than {MAX_SEGMENT_BYTES} bytes"
    return None


def manifest_faults(paths: Iterable[str]) -> tuple[str, ...]:
    """All that is wrong with these names, alone and with each other."""
    listed = list(paths)
    faults = [fault for path in listed if (fault := name_fault(path)) is not None]
    seen: dict[str, str] = {}
    for path in listed:
        folded = _folded(path)
        if folded in seen:
            faults.append(_clash(seen[folded], path))
        seen.setdefault(folded, path)
    faults.extend(
        f"{seen[parent]!r} is a file and the folder of {path!r}"
        for path in listed
        for parent in _parents(_folded(path))
        if parent in seen
    )
    return tuple(dict.fromkeys(faults))


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _clash(first: str, second: str) -> str:
    if first == second:
        return f"{first!r} is listed twice"
    if unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second):
        return f"{first!r} and {second!r} are the same name, written with other Unicode characters"
    return f"{first!r} and {second!r} differ in upper and lower case only"


def _parents(path: str) -> Iterable[str]:
    segments = path.split("/")
    return ("/".join(segments[:end]) for end in range(1, len(segments)))
