"""How command lines end: an exit code and a sentence, never a traceback."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from slipway.cli.app import run

SLIPWAY = (sys.executable, "-c", "from slipway.cli import main; main()")
NOWHERE = {**os.environ, "SLIPWAY_URL": "http://127.0.0.1:1", "SLIPWAY_TOKEN": "slp_x"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "Usage: "),
        ("model", "Usage: "),
        ("promote", "Missing argument"),
        ("modle list", "No such command 'modle'"),
        ("--bogus", "No such option: --bogus"),
        ("model list -o yaml", "'yaml' is not one of"),
        ("model list -o", "requires an argument"),
        ("token create x --role king", "'king' is not one of"),
        ("release history prod/t --number abc", "--number"),
        ("model get one two", "unexpected extra argument"),
        ("deployment get no-slash --limit", "No such option"),
    ],
)
def test_usage_errors_say_what_is_wrong(line: str, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err
    assert "Traceback" not in err


def test_help_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "Usage: " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SLIPWAY_URL", "http://[::1", "SLIPWAY_URL is no address: 'http://[::1'"),
        ("SLIPWAY_URL", "localhost:8080", "Write http://HOST:PORT"),
        ("SLIPWAY_URL", "http//ann:SECRETPW@host", "SLIPWAY_URL is no address: '***@host'"),
        (
            "SLIPWAY_TOKEN",
            "slp_SECRETé",
            "SLIPWAY_TOKEN is no token: its character 11 of 11 is outside ASCII",
        ),
        ("SLIPWAY_TOKEN", "slp_SEC\rRET", "SLIPWAY_TOKEN is no token: its character 8 of 11 is white space"),
    ],
)
def test_a_broken_address_or_token_is_named_and_not_told(
    variable: str,
    value: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLIPWAY_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SLIPWAY_TOKEN", "slp_x")
    monkeypatch.setenv(variable, value)
    assert run(["model", "list"]) == 2
    told = capfd.readouterr().err
    assert says in told
    assert "SECRET" not in told


def test_ctrl_c_detaches_and_says_so() -> None:
    # What a shell starts in the background inherits that SIGINT is ignored; in the foreground it is not.
    foreground = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = (sys.executable, "-c", foreground + SLIPWAY[-1])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [*command, "wait", "prod/sentiment"],
            env={**NOWHERE, "SLIPWAY_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = silent.accept()
        with connection:
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert out == ""
    assert err == "detached; what runs on the registry goes on\n"


# The shell that opens the place, and what the command line then ends with.
@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        (">&-", 1, "standard output is closed"),
        (">/dev/full", 1, "could not be written: No space left on device"),
        ("| true", 141, ""),
    ],
)
def test_output_that_can_not_be_printed(place: str, code: int, says: str) -> None:
    # The reader is gone before anything is printed: `true` has ended when the pipe's other end begins.
    wait = "sleep 0.3; " if place.startswith("|") else ""
    script = f'{{ {wait}"$@" --help; echo "code $?" >&2; }} {place}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *SLIPWAY], env=NOWHERE, capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith(f"code {code}\n")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    if not says:
        assert done.stderr == f"code {code}\n"
