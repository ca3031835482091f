"""What Slipway stands on is used by the product for what it is made for, not only installed beside it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("registry", "builder", "serving", "slipway", "migrations")
# A tool by its module, and what of it product code must use.
USES = {
    "sqlalchemy": {"select", "AsyncSession"},
    "alembic": {"command", "op"},
    "fastapi": {"FastAPI", "APIRouter"},
    "boto3": {"client"},
    "onnx": {"load", "checker"},
    "onnxruntime": {"InferenceSession"},
    "tensorrt": {"Builder", "Runtime"},
    "polygraphy": {"OnnxrtRunner"},
    "celery": {"Celery"},
    "redis": {"Redis"},
}


# TensorRT has two packages with one API: this call gives the one that is wanted.
CHOSEN_BY = {"import_tensorrt": "tensorrt"}


def uses(tree: ast.Module) -> dict[str, set[str]]:
    """Names that a file takes out of each tool: imported from it, or read from its module by any name."""
    modules: dict[str, str] = {}
    found: dict[str, set[str]] = {tool: set() for tool in USES}
    read: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    tool = alias.name.partition(".")[0]
                    modules[alias.asname or tool] = tool
            case ast.ImportFrom(module=str(module), names=names):
                found.setdefault(module.partition(".")[0], set()).update(alias.name for alias in names)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=call))):
                if call in CHOSEN_BY:
                    modules[name] = CHOSEN_BY[call]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                read.append((name, attribute))
    for name, attribute in read:
        if name in modules:
            found.setdefault(modules[name], set()).add(attribute)
    return found


@pytest.fixture(scope="module")
def used() -> dict[str, dict[str, set[str]]]:
    """By file."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): uses(ast.parse(path.read_text())) for path in paths}


@pytest.mark.parametrize("tool", USES)
def test_a_tool_does_in_the_product_what_it_is_made_for(
    tool: str, used: dict[str, dict[str, set[str]]]
) -> None:
    by_file = {name: found[tool] for name, found in used.items() if found[tool]}
    names = {name for found in by_file.values() for name in found}
    assert names >= USES[tool], f"{tool} is used only so: {by_file}"


def test_an_import_that_is_not_used_is_no_use() -> None:
    assert uses(ast.parse("import boto3\nother.client()"))["boto3"] == set()
    assert uses(ast.parse("import onnx as o\no.load('x')"))["onnx"] == {"load"}
    assert uses(ast.parse("from onnxruntime import InferenceSession"))["onnx"] == set()
