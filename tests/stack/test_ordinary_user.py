"""Under root: the stack started by an ordinary user, from a copy of the sources that he can reach."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import registry
import slipway
from slipway.stack import binaries
from slipway.stack.account import Account, first_closed_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="all other tests run as an ordinary user already")

_SCRIPT = """
import os, sys
from pathlib import Path
from slipway.stack import Stack

stack = Stack(Path(sys.argv[1]), environ=os.environ)
for _ in range(2):
    with stack.running() as at:
        owners = {Path(f"/proc/{stack.pid(name)}").stat().st_uid for name in stack.names}
        print(len(stack.names), owners == {os.getuid()}, os.getuid() != 0)
"""


def _interpreter(account: Account, copies: Path) -> tuple[Path, dict[str, str]]:
    """This Python (a copy where it lies in root's private home), and what it needs in its environment."""
    executable = Path(sys.executable).resolve()
    if first_closed_directory(account, executable) is None:
        return executable, {}
    left_out = shutil.ignore_patterns(
        "site-packages", "test", "__pycache__", "config-*", "idlelib", "tkinter"
    )
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, copies / "lib" / library.name, ignore=left_out)
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython3*.so*"):
        shutil.copy2(shared, copies / "lib")
    (copies / "bin").mkdir()
    return Path(shutil.copy2(executable, copies / "bin")), {"LD_LIBRARY_PATH": str(copies / "lib")}


def test_an_ordinary_user_starts_all_three_servers_twice(open_dir: Path, plain: dict[str, str]) -> None:
    nobody = pwd.getpwnam("nobody")
    account = Account("nobody", nobody.pw_uid, nobody.pw_gid)
    packages = Path(sysconfig.get_path("purelib"))
    if (closed := first_closed_directory(account, packages)) is not None:
        pytest.skip(f"{account.name} can't reach the installed packages: {closed} is closed")
    python, needs = _interpreter(account, open_dir / "python")
    sources = open_dir / "sources of his"
    shutil.copytree(Path(slipway.__file__).parent / "stack", sources / "slipway" / "stack")
    # The stack speaks of addresses as clients do: without what is secret in them.
    shutil.copytree(Path(registry.__file__).parent, sources / "registry")
    (sources / "slipway" / "__init__.py").touch()
    home = open_dir / "home"
    home.mkdir()
    os.chown(home, account.uid, account.gid)

    done = subprocess.run(
        [str(python), "-c", _SCRIPT, str(home / "data")],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        cwd=home,
        env=plain
        | needs
        | {
            "PYTHONPATH": os.pathsep.join((str(sources), str(packages))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SLIPWAY_WEED": str(binaries.weed({})),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["3 True True"] * 2, done.stderr
