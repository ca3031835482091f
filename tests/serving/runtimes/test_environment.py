from pathlib import Path

import pytest

from serving.runtimes.environment import check_environment, check_tensorrt, linked_tensorrt
from serving.runtimes.errors import ConflictingRuntimes, IncompatibleTensorRt


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


def test_the_release_of_tensorrt_that_a_library_names_is_read_without_loading_it(tmp_path: Path) -> None:
    library = tmp_path / "provider.so"
    library.write_bytes(b"\x7fELF" + bytes(5000) + b"libnvinfer.so.10\0libnvinfer_plugin.so.10\0")
    assert linked_tensorrt(library) == "10"
    library.write_bytes(b"\x7fELF" + bytes(100))
    assert linked_tensorrt(library) == ""
    library.write_bytes(b"")
    assert linked_tensorrt(library) == ""
    assert linked_tensorrt(tmp_path / "none.so") == ""


def test_another_major_release_of_tensorrt_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "provider.so"
    library.write_bytes(b"\x7fELF libnvinfer.so.10\0")
    with pytest.raises(IncompatibleTensorRt, match=r"wants TensorRT 10\.\*, and none is installed"):
        check_tensorrt(library)
    monkeypatch.syspath_prepend(str(tmp_path))
    _install(tmp_path, "tensorrt", "11.4.0")
    with pytest.raises(IncompatibleTensorRt, match=r"wants TensorRT 10\.\*, and 11\.4\.0 is installed"):
        check_tensorrt(library)
    library.write_bytes(b"\x7fELF libnvinfer.so.11\0")
    check_tensorrt(library)


def _install(folder: Path, name: str, version: str = "1.31.1") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
