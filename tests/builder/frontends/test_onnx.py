"""What is taken as an ONNX model, what is brought into its one file, and what is refused with a reason."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import set_external_data

from builder.frontends.onnx import choose_model, import_onnx
from builder.steps.step import Refused
from tests.builder import made


def with_external(folder: Path, location: str, cut: int = 0) -> Path:
    """A model whose dense weights lie in a file of their own."""
    path = made.conv_model(folder / "model.onnx")
    model = onnx.load(str(path))
    for tensor in model.graph.initializer:
        if tensor.name == "dense":
            data = tensor.raw_data
            set_external_data(tensor, location, offset=0, length=len(data))
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            where = folder / location
            if where.resolve().is_relative_to(folder.resolve()):
                where.write_bytes(data[: len(data) - cut])
    onnx.save(model, str(path))
    return path


def test_a_model_of_one_file_is_taken_byte_for_byte(tmp_path: Path, model: Path) -> None:
    found = import_onnx(tmp_path, "model.onnx", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.read_bytes()
    assert (found.opset, found.nodes, found.producer, found.external) == (17, 6, "a test", ())


def test_external_data_is_brought_into_the_one_file(tmp_path: Path) -> None:
    with_external(tmp_path / "version", "weights.bin")
    found = import_onnx(tmp_path / "version", "model.onnx", tmp_path / "out.onnx")
    alone = onnx.load(str(tmp_path / "out.onnx"), load_external_data=False)
    (dense,) = [tensor for tensor in alone.graph.initializer if tensor.name == "dense"]
    assert found.external == ("weights.bin",)
    assert np.array_equal(onnx.numpy_helper.to_array(dense), made.weights()["dense"])


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "..\\secret.bin"])
def test_external_data_outside_of_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(b"x" * 1000)
    with_external(tmp_path / "version", location)
    with pytest.raises(Refused, match=r"'dense'.*outside of the version's folder"):
        import_onnx(tmp_path / "version", "model.onnx", tmp_path / "out.onnx")


def test_external_data_behind_a_link_is_refused(tmp_path: Path) -> None:
    with_external(tmp_path / "version", "weights.bin")
    (tmp_path / "version" / "weights.bin").rename(tmp_path / "secret.bin")
    (tmp_path / "version" / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(Refused, match="not among the version's files"):
        import_onnx(tmp_path / "version", "model.onnx", tmp_path / "out.onnx")


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    with_external(tmp_path / "version", "weights.bin")
    (tmp_path / "version" / "weights.bin").unlink()
    with pytest.raises(Refused, match=r"'weights\.bin', which is not among"):
        import_onnx(tmp_path / "version", "model.onnx", tmp_path / "out.onnx")


def test_external_data_that_was_cut_off_is_named(tmp_path: Path) -> None:
    with_external(tmp_path / "version", "weights.bin", cut=4)
    with pytest.raises(Refused, match="was cut off"):
        import_onnx(tmp_path / "version", "model.onnx", tmp_path / "out.onnx")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (b"\x80\x04\x95" + bytes(60), "Python pickle"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"just some text that nobody trained", "not an ONNX"),
        (b"", "not an ONNX"),
        (bytes(64), "not an ONNX"),
    ],
)
def test_what_is_no_onnx_file_is_refused_with_what_it_is(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(Refused, match=told):
        import_onnx(tmp_path, "model.onnx", tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_a_model_that_was_cut_off_is_refused(tmp_path: Path, model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-40])
    with pytest.raises(Refused, match="cut off"):
        import_onnx(tmp_path, "model.onnx", tmp_path / "out.onnx")


def test_the_model_is_found_among_the_files() -> None:
    assert choose_model(("notes.md", "deep/net.onnx")) == "deep/net.onnx"
    assert choose_model(("encoder.onnx", "model.onnx")) == "model.onnx"


@pytest.mark.parametrize(
    ("paths", "told"), [(("a.pt",), "no .onnx file"), (("a.onnx", "b.onnx"), "name the one to build")]
)
def test_no_single_model_is_refused(paths: tuple[str, ...], told: str) -> None:
    with pytest.raises(Refused, match=told):
        choose_model(paths)
