"""Rules of the tree that import-linter's contracts can't say: queries are private to their room, …"""

import ast
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("slipway", "registry", "builder", "serving", "web")
LONGEST_FILE = 500
LONGEST_FUNCTION = 60


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES)


def test_a_rooms_queries_are_its_own(graph: grimp.ImportGraph) -> None:
    strangers = {
        f"{importer} imports {module}"
        for module in graph.modules
        if module.startswith("registry.") and module.endswith(".repository")
        for importer in graph.find_modules_that_directly_import(module)
        if not importer.startswith(module.removesuffix("repository"))
    }
    assert strangers == set(), "other rooms call a room's service"


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_files_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_functions_stay_short() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": size
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long == {}


def test_nothing_that_is_registered_is_unpickled_but_by_a_frontend_behind_walls() -> None:
    """Frontends that execute code run in the sandbox or not at all (isolation/test_sandbox.py)."""
    loaders = ("pickle.load", "joblib.load", "torch.load", "allow_pickle=True")
    found = [
        f"{path.relative_to(ROOT)}: {loader}"
        for path in sources()
        for loader in loaders
        if loader in path.read_text() and (ROOT / "builder" / "frontends") not in path.parents
    ]
    assert found == []


def test_locks_hold_no_address_of_a_registry() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text, path
        assert "--hash=sha256:" in text, path
