"""Names of files mean one file on every system that they may land on, or are refused with the reason."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.lifecycle.manifest import MAX_DEPTH, manifest_faults, name_fault


@pytest.mark.parametrize(
    "path",
    [
        "model.onnx",
        "variables/variables.data-00000-of-00001",
        "assets.extra/tf_serving_warmup_requests",
        "tokenizer/vocab (1).txt",
        ".gitattributes",
        "Größe/模型.onnx",
        "console.txt",
        "com10.bin",
    ],
)
def test_ordinary_names_are_taken(path: str) -> None:
    assert name_fault(path) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a/../b", "leaves the version's folder"),
        ("..", "leaves the version's folder"),
        ("/a", "is absolute"),
        ("c:a", "is absolute"),
        ("a\\b", "backslash"),
        ("./a", "empty segment"),
        ("a/", "empty segment"),
        ("a\x00b", "control characters"),
        ("model\u202excod.onnx", "can't be seen"),
        ("a\ud800", "can't be seen"),
        ("a/" * MAX_DEPTH + "b", "folders deep"),
        ("x" * 256, "segment longer than 255 bytes"),
        ("é" * 128, "segment longer than 255 bytes"),
        ("/".join(["x" * 200] * 6), "longer than 1024 bytes"),
        ("what?.onnx", "which some systems refuse"),
        ("stream:data", "which some systems refuse"),
        ("model ", "some systems drop that"),
        ("folder./model", "some systems drop that"),
        ("NUL", "a device"),
        ("weights/aux.bin", "a device"),
        ("Com1.onnx", "a device"),
    ],
)
def test_names_that_mean_something_else_somewhere_are_refused(path: str, said: str) -> None:
    assert said in (name_fault(path) or "")


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["A/b", "a/B"], "upper and lower case only"),
        (["straße", "STRASSE"], "upper and lower case only"),
        (["caf\u00e9", "cafe\u0301"], "other Unicode characters"),
        (["\u00c5", "\u212b"], "other Unicode characters"),
        (["W", "w/part"], "is a file and the folder of"),
        (["a", "a"], "listed twice"),
    ],
)
def test_names_that_clash_are_refused(paths: list[str], said: str) -> None:
    (fault,) = manifest_faults(paths)
    assert said in fault


def test_a_reserved_name_is_refused_in_any_case() -> None:
    assert manifest_faults(["Dataset.JSON", "rows.tar"], reserved=("dataset.json",)) == (
        "'Dataset.JSON' is a reserved name",
    )


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), min_size=1, max_size=20))
def test_every_spelling_of_a_name_clashes_with_it(name: str) -> None:
    for other in (unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name), name.casefold()):
        assert any(
            "twice" in fault or "same name" in fault or "case" in fault
            for fault in manifest_faults([name, other])
        )
