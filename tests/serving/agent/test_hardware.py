"""Facts of the machine, within a container's limits."""

from pathlib import Path

from serving.agent.hardware import hardware, memory_free


def test_a_containers_limit_counts_without_the_page_cache(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 300000\ninactive_file 400000\n")
    assert memory_free(tmp_path) == 700_000


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_free(tmp_path) > 1_000_000


def test_cpu_features_that_decide_about_engines(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu vme avx2 avx512_vnni fma\nflags : other\n")
    facts = hardware(cpuinfo)
    assert facts.cpu_features == ("avx2", "avx512_vnni", "fma")
    assert facts.cores >= 1 and facts.memory_bytes > 0
