from pathlib import Path

import pytest

from serving.runtimes.environment import check_environment
from serving.runtimes.errors import ConflictingRuntimes


def test_this_environment_is_fit() -> None:
    check_environment()


@pytest.mark.parametrize("second", ["onnxruntime-gpu", "onnxruntime-openvino"])
def test_two_providers_of_one_module_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    _install(tmp_path, second)
    _install(tmp_path, "onnxruntime")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConflictingRuntimes) as caught:
        check_environment()
    assert caught.value.distributions == ("onnxruntime", second)
    assert f"pip uninstall onnxruntime {second}" in str(caught.value)


def _install(folder: Path, name: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.31.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.31.1\n")
