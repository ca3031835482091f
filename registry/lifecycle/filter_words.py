"""The words of a filter: names, values, operators, each with its place in the text. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

MAX_FOUND = 40


class FilterError(ValueError):
    """The text is no filter: what was expected, where (counted from 1), and what is there instead."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        shown = found if len(found) <= MAX_FOUND else found[:MAX_FOUND] + "…"
        there = f"found {shown!r}" if found else "the text ends there"
        super().__init__(f"at character {position}: expected {expected}, {there}")
        self.position = position
        self.expected = expected


class WordKind(StrEnum):
    BARE = "bare"
    QUOTED = "quoted"
    OPERATOR = "operator"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class Word:
    """`text` is what is meant (quotes taken off), `raw` what is written, from `position` on."""

    kind: WordKind
    text: str
    raw: str
    position: int

    @property
    def after(self) -> int:
        """The position right behind it."""
        return self.position + len(self.raw)


_SPACE = re.compile(r"\s*")
_WORD = re.compile(
    r"""(?P<bare>[A-Za-z0-9_+-][A-Za-z0-9_.@/:+-]*)
      | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<operator>!=|>=|<=|[=~<>])
      | (?P<mark>[(),])""",
    re.VERBOSE,
)


def words(text: str) -> Iterator[Word]:
    """The words of `text`, the last one of kind END. Raises FilterError."""
    at = 0
    while True:
        at = _space_end(text, at)
        if at == len(text):
            yield Word(WordKind.END, "", "", at + 1)
            return
        found = _WORD.match(text, at)
        if found is None:
            what = "the closing quote" if text[at] in "'\"" else "a field, an operator or a value"
            raise FilterError(at + 1, what, text[at:])
        kind, raw = WordKind(str(found.lastgroup)), found[0]
        yield Word(kind, _unquoted(raw, at + 1) if kind is WordKind.QUOTED else raw, raw, at + 1)
        at = found.end()


def _space_end(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _unquoted(raw: str, position: int) -> str:
    quote = raw[0]
    inner = raw[1:-1].replace(quote * 2, quote)
    if "\0" in inner or any("\ud800" <= character <= "\udfff" for character in inner):
        raise FilterError(position, "a value without NUL or lone surrogates", raw)
    return inner
