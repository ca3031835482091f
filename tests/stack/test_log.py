from pathlib import Path

from slipway.stack.log import rotate, tail


def test_a_log_over_its_cap_moves_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        assert rotate(log, cap_bytes=100)
        writer.write(b"new\n")

    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "server.log.1").read_bytes() == b"old\n" * 100


def test_a_log_within_its_cap_stays(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert not rotate(log)
    log.write_text("few words")
    assert not rotate(log)
    assert log.read_text() == "few words"


def test_tail_is_the_end_and_empty_without_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert tail(log) == ""
    log.write_text("".join(f"line {n}\n" for n in range(10_000)))
    assert tail(log).splitlines()[-1] == "line 9999"
    assert len(tail(log).splitlines()) < 50
