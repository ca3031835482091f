import os
import re
import subprocess
from pathlib import Path

import pytest

from registry.contract.identity import TARGET_PATTERN
from serving.runtimes.catalogue import known_targets, runtime_for
from serving.runtimes.errors import UnknownTarget
from serving.runtimes.protocol import Device
from serving.runtimes.targets import local_targets
from tests import environments

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


def test_this_machine_runs_what_it_tells() -> None:
    targets = local_targets()
    assert "ort.cpu" in targets
    for target in targets:
        assert re.match(TARGET_PATTERN, target)
        assert runtime_for(target)[1] == Device("cuda" if ".sm_" in target else "cpu")


@pytest.mark.parametrize(
    ("name", "allowed", "wanted"),
    [
        ("openvino", False, ["openvino.cpu", "ort.cpu"]),
        ("torch", False, ["ort.cpu"]),
        ("torch", True, ["ort.cpu", "torch.cpu", "torchscript.cpu"]),
    ],
)
def test_what_is_installed_and_allowed_is_told(name: str, allowed: bool, wanted: list[str]) -> None:
    code = (
        "from pathlib import Path; from serving.runtimes.targets import local_targets; "
        f"print(*[one for one in local_targets(Path('none'), allow_code={allowed}) if '.sm_' not in one])"
    )
    ended = subprocess.run(
        [str(environments.worker(name).python), "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=environments.ROOT,
        env={"PATH": os.environ["PATH"]},
    )
    assert ended.stdout.split() == wanted


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
    assert runtime_for("ort.tensorrt.sm_90")[0] is not runtime_for("ort.cuda.sm_90")[0]
    assert runtime_for("tensorrt_rtx.sm_89")[0].name == "tensorrt_rtx"
    assert runtime_for("tensorrt.sm_90")[0].name == "tensorrt"


@pytest.mark.parametrize("target", ["tvm.cpu", "ort", "ort.cpux", "torch", ""])
def test_an_unknown_target_is_refused_with_the_known_ones(target: str) -> None:
    with pytest.raises(UnknownTarget) as caught:
        runtime_for(target)
    assert all(known in str(caught.value) for known in known_targets())
