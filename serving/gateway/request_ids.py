"""Request ids: kept from upstream, or made of a random start and a counter."""

import itertools
import os

HEADER = b"x-request-id"
LONGEST = 128


class RequestIds:
    def __init__(self) -> None:
        self._start = os.urandom(6).hex()
        self._count = itertools.count(1)

    def of(self, headers: dict[bytes, bytes]) -> str:
        """An id that is empty, too long or not printable ASCII is replaced by one of ours."""
        given = headers.get(HEADER)
        if given is not None and 0 < len(given) <= LONGEST and given.isascii():
            text = given.decode("ascii")
            if text.isprintable():
                return text
        return f"{self._start}-{next(self._count):x}"
