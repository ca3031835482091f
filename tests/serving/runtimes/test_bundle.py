import zipfile
from pathlib import Path

import pytest

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.bundle import SIGNATURE, pack, unpack
from serving.runtimes.errors import NotAModel

SPEC = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
    outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 3)),),
)
PARTS = {"model.xml": b"<net/>", "model.bin": bytes(100)}


def test_equal_parts_give_equal_bytes_and_come_back_whole(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pack(tmp_path / name, SPEC, PARTS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert unpack(tmp_path / "one", "an engine", tuple(PARTS)) == (SPEC, tuple(PARTS.values()))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((SIGNATURE, "model.xml"), "instead of model.xml, model.bin"),
        ((SIGNATURE, "model.xml", "model.bin", "more"), "it holds .*more"),
        ((SIGNATURE, "model.xml", "../model.bin"), r"it holds .*\.\./model\.bin"),
        ((SIGNATURE, "model.bin", "model.xml"), "it holds"),
        (("model.xml", "model.bin"), "it holds"),
    ],
)
def test_only_the_agreed_names_are_taken(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    with zipfile.ZipFile(tmp_path / "engine", "w") as archive:
        for name in names:
            archive.writestr(name, SPEC.model_dump_json() if name == SIGNATURE else b"content")
    with pytest.raises(NotAModel, match=reason):
        unpack(tmp_path / "engine", "an engine", tuple(PARTS))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "engine", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SIGNATURE, SPEC.model_dump_json())
        archive.writestr("model.xml", bytes(64 << 20))
        archive.writestr("model.bin", b"")
    assert (tmp_path / "engine").stat().st_size < 1 << 20
    with pytest.raises(NotAModel, match="compressed, which engines never are"):
        unpack(tmp_path / "engine", "an engine", tuple(PARTS))


def test_a_damaged_part_and_a_wrong_signature_are_refused(tmp_path: Path) -> None:
    pack(tmp_path / "engine", SPEC, PARTS)
    whole = (tmp_path / "engine").read_bytes()
    (tmp_path / "flipped").write_bytes(whole.replace(b"<net/>", b"<bet/>"))
    with pytest.raises(NotAModel, match="CRC"):
        unpack(tmp_path / "flipped", "an engine", tuple(PARTS))
    with zipfile.ZipFile(tmp_path / "unsigned", "w") as archive:
        for name in (SIGNATURE, *PARTS):
            archive.writestr(name, b"{}")
    with pytest.raises(NotAModel, match="errors for Signature"):
        unpack(tmp_path / "unsigned", "an engine", tuple(PARTS))


def test_a_missing_file_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        unpack(tmp_path / "none", "an engine", tuple(PARTS))
