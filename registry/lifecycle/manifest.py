"""What is wrong with a list of file names. Names must mean one file on every system they may land on."""

import re
import unicodedata
from collections.abc import Iterable

MAX_SEGMENT_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_DEPTH = 32
# Control, format (invisible, or turning the text around) and surrogate characters.
_UNSEEN = ("Cc", "Cf", "Cs")
_FORBIDDEN = frozenset('<>:"|?*')
_DEVICE = re.compile(r"^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)


def name_fault(path: str) -> str | None:
    """Why this name can't be taken, or None."""
    if any(unicodedata.category(character) in _UNSEEN for character in path):
        return f"{path!r} holds control characters, or ones that can't be seen"
    if "\\" in path:
        return f"{path!r} holds a backslash; write folders with forward slashes"
    if path.startswith("/") or (len(path) > 1 and path[1] == ":"):
        return f"{path!r} is absolute; write it relative to the version's folder"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"{path!r} is longer than {MAX_PATH_BYTES} bytes"
    segments = path.split("/")
    if ".." in segments:
        return f"{path!r} leaves the version's folder by '..'"
    if "" in segments or "." in segments:
        return f"{path!r} holds an empty segment or '.'"
    if len(segments) > MAX_DEPTH:
        return f"{path!r} lies more than {MAX_DEPTH} folders deep"
    return next((fault for segment in segments if (fault := _segment_fault(path, segment))), None)


def _segment_fault(path: str, segment: str) -> str | None:
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"{path!r} holds a segment longer than {MAX_SEGMENT_BYTES} bytes"
    if forbidden := _FORBIDDEN.intersection(segment):
        return f"{path!r} holds {' '.join(sorted(forbidden))}, which some systems refuse in names"
    if segment != segment.strip(" ") or segment.endswith("."):
        return f"{path!r} begins or ends a name with a space, or ends it with a dot; some systems drop that"
    if _DEVICE.match(segment):
        return f"{path!r} holds {segment!r}, a device on some systems"
    return None


def manifest_faults(paths: Iterable[str], reserved: Iterable[str] = ()) -> tuple[str, ...]:
    """All that is wrong with these names, alone and with each other. `reserved`: names of something else."""
    listed = list(paths)
    faults = [fault for path in listed if (fault := name_fault(path)) is not None]
    taken = {_folded(name) for name in reserved}
    faults.extend(f"{path!r} is a reserved name" for path in listed if _folded(path) in taken)
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
    """Equal for names that some system takes for one: canonical caseless matching of Unicode (D145)."""
    folded = unicodedata.normalize("NFD", path).casefold()
    return unicodedata.normalize("NFD", folded)


def _clash(first: str, second: str) -> str:
    if first == second:
        return f"{first!r} is listed twice"
    if unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second):
        return f"{first!r} and {second!r} are the same name, written with other Unicode characters"
    return f"{first!r} and {second!r} differ in upper and lower case only"


def _parents(path: str) -> Iterable[str]:
    segments = path.split("/")
    return ("/".join(segments[:end]) for end in range(1, len(segments)))
