import signal
import subprocess
import sys
import time
from dataclasses import replace

from slipway.stack.identity import ProcessIdentity, stop_all

_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
)


def test_an_identity_is_alive_until_its_process_ends() -> None:
    process = subprocess.Popen(["sleep", "60"])
    found = ProcessIdentity.of(process.pid)
    assert found is not None and found.alive()

    process.kill()
    # Not waited for: a zombie still has its process id, and has ended all the same.
    deadline = time.monotonic() + 60
    while found.alive() and time.monotonic() < deadline:
        time.sleep(0.01)

    assert not found.alive()
    assert ProcessIdentity.of(process.pid) is None
    process.wait()


def test_a_reused_process_id_is_not_mistaken_and_not_signalled() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        found = ProcessIdentity.of(process.pid)
        assert found is not None
        others = [replace(found, ticks=found.ticks - 1), replace(found, boot="another boot")]

        assert not any(other.alive() for other in others)
        stop_all([(other, signal.SIGKILL) for other in others], grace_s=0)
        assert process.poll() is None
        process.kill()


def test_stop_all_asks_first_and_kills_the_deaf() -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as polite,
        subprocess.Popen([sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE) as stubborn,
    ):
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        found = [ProcessIdentity.of(process.pid) for process in (polite, stubborn)]
        stop_all([(one, signal.SIGTERM) for one in found if one is not None], grace_s=1)

        assert polite.wait(5) == -signal.SIGTERM
        assert stubborn.wait(5) == -signal.SIGKILL
