import re
from pathlib import Path

import pytest

from registry.contract.identity import TARGET_PATTERN
from serving.runtimes.catalogue import known_targets, runtime_for
from serving.runtimes.errors import UnknownTarget
from serving.runtimes.protocol import Device
from serving.runtimes.targets import local_targets


def test_this_machine_runs_what_it_tells() -> None:
    targets = local_targets()
    assert targets[-1] == "ort.cpu"
    for target in targets:
        assert re.match(TARGET_PATTERN, target)
        assert runtime_for(target)[1] == Device("cpu")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", ("ort.cpu.avx512_vnni", "ort.cpu")),
        ("processor : 0\nflags\t\t: fpu avx2\n", ("ort.cpu",)),
        ("processor : 0\nFeatures\t: fp asimd\n", ("ort.cpu",)),
        ("", ("ort.cpu",)),
    ],
)
def test_the_best_target_comes_first(tmp_path: Path, text: str, wanted: tuple[str, ...]) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    assert local_targets(cpuinfo) == wanted


def test_without_cpuinfo_the_plain_target_is_left(tmp_path: Path) -> None:
    assert local_targets(tmp_path / "none") == ("ort.cpu",)


def test_the_longest_prefix_finds_the_runtime() -> None:
    assert runtime_for("ort.cuda.sm_90")[1] == Device("cuda")
    assert runtime_for("ort.cpu.avx512_vnni")[0].name == "onnxruntime"


@pytest.mark.parametrize("target", ["tensorrt.sm_90", "ort", "ort.cpux", ""])
def test_an_unknown_target_is_refused_with_the_known_ones(target: str) -> None:
    with pytest.raises(UnknownTarget) as caught:
        runtime_for(target)
    assert all(known in str(caught.value) for known in known_targets())
