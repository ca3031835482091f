"""How an upload is cut into parts."""

from collections.abc import Iterator

PART_SIZE = 16 * 1024 * 1024
# Stores take 10,000; fewer keep the list of URLs, each of them signed, short.
MAX_PARTS = 2_000


def part_size(size: int) -> int:
    """Bytes of every part but the last: 16 MiB, more when that made above MAX_PARTS parts."""
    smallest = -(-size // MAX_PARTS)
    return max(PART_SIZE, -(-smallest // PART_SIZE) * PART_SIZE)


def cuts(size: int, each: int) -> Iterator[tuple[int, int, int]]:
    """(number, offset, size) of each part. Nothing is one empty part."""
    for index in range(max(1, -(-size // each))):
        offset = index * each
        yield index + 1, offset, min(each, size - offset)
