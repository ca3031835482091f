"""Every `slipway …` command that a text of the product names is one that the command line takes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from slipway.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("registry", "builder", "serving", "web", "slipway")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TEMPLATES = sorted((ROOT / "web").rglob("*.html"))
# A word that is no argument ends a command: an argument is an option, a filled-in value or in capitals.
COMMAND = re.compile(r"(?<![\w./-])slipway((?: [^\s,;`'\")]+)*)")
ARGUMENT = re.compile(r"^(--?[a-z]|…|[A-Z]|.*[@/{}0-9].*)")


def texts(path: Path) -> Iterator[str]:
    """What people may read: `{}` stands for what is filled in."""
    if path.suffix == ".html":
        yield re.sub(r"\{\{.*?\}\}", "{}", path.read_text())
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def commands(text: str) -> Iterator[list[str]]:
    for found in COMMAND.finditer(text):
        words = list(_sentence(found[1].split()))
        if words and re.match(r"^[a-z][a-z-]*$", words[0]):
            yield words


def _sentence(words: list[str]) -> Iterator[str]:
    """Up to where it ends, or gets to the point."""
    for word in words:
        yield word.rstrip(".:")
        if word.endswith((".", ":")):
            return


def fault(words: list[str]) -> str | None:
    """Why the command line does not take it; None: it does, or it is prose that begins with the name."""
    at: Any = typer.main.get_command(app)
    left = list(words)
    while hasattr(at, "commands") and left and not ARGUMENT.match(left[0]):
        if left[0] not in at.commands:
            return f"there is no command {left[0]!r} in {sorted(at.commands)}"
        at = at.commands[left.pop(0)]
    known = {option for parameter in at.params for option in parameter.opts} | {"--help"}
    wanted = any(parameter.required and parameter.param_type_name == "argument" for parameter in at.params)
    for word in left:
        if not ARGUMENT.match(word):
            return f"{word!r} is no argument" if wanted and word is left[0] else None
        if word.startswith("-") and word.partition("=")[0] not in known:
            return f"it has no option {word}"
    return None


# Not commands: the product's own name in a sentence.
PROSE = ("sealed answer", "restore", "itself")


def test_every_command_that_a_text_names_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: slipway {' '.join(words)}: {why}"
        for path in [*SOURCES, *TEMPLATES]
        for text in texts(path)
        for words in commands(text)
        if not " ".join(words).startswith(PROSE) and (why := fault(words)) is not None
    ]
    assert wrong == []


def test_a_wrong_command_is_noticed() -> None:
    (named,) = commands("list them: slipway rollback list {}; or go")
    assert fault(named) == "'list' is no argument"
    assert fault(["release", "receipt"]) is not None
    assert fault(["rollback", "{}", "--too"]) == "it has no option --too"
    assert fault(["rollback", "{}", "--to"]) is None
