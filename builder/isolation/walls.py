"""Runs one command that may be hostile.

`python -m builder.isolation.walls --read PATH … --write PATH -- COMMAND …`

The command sees the system's libraries and the paths that it is given, all read-only but the one room; no
network, no process but its own, an environment of a few harmless words, and no more rights than nobody's.
What it starts ends with it. New user, mount, process, network and IPC namespaces are the walls, resource
limits the ceiling; they are built from outside in, and each right is gone before the command begins.

The exit code is the command's own, 128 and its signal, or 126 when the walls could not be built: then nothing
was run. Linux ≥ 5.12.
"""

import argparse
import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from serving.runtimes.walled import MARK

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
WALLS = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
LAST_CAPABILITY = 63
SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# What programs of this machine are made of; folders that a system doesn't have are left out.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
NOBODY = 65534
OLD_ROOT = "/outside"
SCRATCH = "/tmp"  # noqa: S108  # a file system of the sandbox's own
SCRATCH_OPTIONS = "size=2g,mode=1777"
CEILING = {
    resource.RLIMIT_NPROC: 1024,
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_FSIZE: 8 << 30,
    resource.RLIMIT_CORE: 0,
}
NOT_BUILT = 126
# How a line begins that tells of what the kernel, or the container around this, refuses.
NO_NAMESPACES = "walls: no namespaces: "

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m builder.isolation.walls", description="Run what may be hostile."
    )
    parser.add_argument("--read", action="append", default=[], metavar="PATH")
    parser.add_argument("--write", required=True, metavar="PATH")
    parser.add_argument("--parent", required=True, type=int, help="end when this process ends")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args(arguments)
    room = Path(asked.write)
    try:
        user, group = _user(room)
    except OSError as error:
        print(
            f"walls: nobody ({NOBODY}) can't own its room ({error}); run as another user than root, or give "
            "this container that user",
            file=sys.stderr,
        )
        return NOT_BUILT
    try:
        _unshare(user, group)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except OSError as error:
        print(f"{NO_NAMESPACES}{error}", file=sys.stderr)
        return NOT_BUILT
    if os.getppid() != asked.parent:
        print("walls: the process that wanted this has ended", file=sys.stderr)
        return NOT_BUILT
    alive, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        _be_first(asked.command, [Path(path) for path in asked.read], room, user, group, alive)
    os.close(alive)
    return _code(os.waitpid(child, 0)[1])


def _user(room: Path) -> tuple[int, int]:
    """Whom the command runs as. Root's commands run as nobody, to whom the room is given."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    for path in (room, *room.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return NOBODY, NOBODY


def _unshare(user: int, group: int) -> None:
    """Builds the walls around this process and what it forks. It has all rights inside, and none outside."""
    if os.geteuid() != 0:
        _call("unshare", WALLS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return
    # Two users inside, root for the mounts and nobody, can only be mapped by a root who stays outside.
    told, tell = os.pipe()
    done, finish = os.pipe()
    inside = os.getpid()
    helper = os.fork()
    if helper == 0:
        try:
            os.close(tell)
            if os.read(told, 1):
                for kind in ("uid_map", "gid_map"):
                    Path(f"/proc/{inside}/{kind}").write_text(f"0 0 1\n{NOBODY} {NOBODY} 1\n")
                os.write(finish, b"!")
        finally:
            os._exit(0)
    os.close(finish)
    try:
        _call("unshare", WALLS)
        os.write(tell, b"!")
    finally:
        os.close(tell)
        mapped = os.read(done, 1)
        os.waitpid(helper, 0)
    if not mapped:
        raise OSError(errno.EPERM, "the users of the sandbox can't be mapped")


def _be_first(
    command: Sequence[str], read: Sequence[Path], room: Path, user: int, group: int, alive: int
) -> NoReturn:
    """The first process inside: furnishes the room, starts the command, reaps, and takes all along when the
    command or the process outside ends (it holds the other end of the pipe `alive`). It can be neither traced
    nor signalled by what it started."""
    code = NOT_BUILT
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Who ended before that sends no signal any more, and in here nobody's parent can be asked for.
        if select.select([alive], [], [], 0)[0]:
            os._exit(NOT_BUILT)
        os.close(alive)
        _prctl(PR_SET_DUMPABLE, 0)
        try:
            _furnish(read, room)
        except OSError as error:
            print(f"{NO_NAMESPACES}{error}", file=sys.stderr, flush=True)
            os._exit(NOT_BUILT)
        child = os.fork()
        if child == 0:
            _begin(command, room, user, group)
        found = 0
        while found != child:
            found, status = os.wait()
        code = _code(status)
    except OSError as error:
        print(f"walls: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _begin(command: Sequence[str], room: Path, user: int, group: int) -> NoReturn:
    """Gives up every right and becomes the command."""
    try:
        for limit, most in CEILING.items():
            allowed = resource.getrlimit(limit)[1]
            most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
            resource.setrlimit(limit, (most, most))
        for capability in range(LAST_CAPABILITY + 1):
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        os.chdir(room)
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {"HOME": SCRATCH, "TMPDIR": SCRATCH, "PYTHONDONTWRITEBYTECODE": "1", MARK: "1"}
        os.execvpe(command[0], list(command), environment)  # noqa: S606  # this is what the program is for
    except OSError as error:
        print(f"walls: {command[0]} can't be begun: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(NOT_BUILT)


def _furnish(read: Sequence[Path], room: Path) -> None:
    """A root in memory with what may be seen bound into it; then the old root is gone."""
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=0755")
    Path(SCRATCH + OLD_ROOT).mkdir()
    _pivot(SCRATCH, SCRATCH + OLD_ROOT)
    os.chdir("/")
    for name in SYSTEM:
        _show(Path(name), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
    for name in DEVICES:
        _show(Path(name), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID)
    for folder in (SCRATCH, "/dev/shm"):  # noqa: S108
        Path(folder).mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH_OPTIONS)
    for at, path in enumerate(shown := sorted({*read})):
        if not any(path.is_relative_to(other) for other in (*shown[:at], Path("/usr"))):
            _show(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
    _show(room, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
    Path("/proc").mkdir()
    # Some containers don't let it be mounted: then there is none, which is no less closed.
    with contextlib.suppress(OSError):
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _call("umount2", OLD_ROOT.encode(), MNT_DETACH)
    Path(OLD_ROOT).rmdir()
    _mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _show(path: Path, attributes: int) -> None:
    """Binds a file or folder of outside at its own place, with everything that is mounted in it."""
    outside = OLD_ROOT + str(path)
    try:
        found = os.lstat(outside)
    except FileNotFoundError:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(found.st_mode):
        path.symlink_to(Path(outside).readlink())
        return
    if stat.S_ISDIR(found.st_mode):
        path.mkdir(exist_ok=True)
    else:
        path.touch()
    _mount(outside, str(path), None, MS_BIND | MS_REC)
    _set_attributes(str(path), attributes)


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    ]


def _set_attributes(path: str, attributes: int) -> None:
    """Also of all that is mounted below: a remount would change the uppermost alone."""
    wanted = _MountAttributes(set=attributes)
    _call(
        "syscall",
        ctypes.c_long(SYS_MOUNT_SETATTR),
        AT_FDCWD,
        path.encode(),
        AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _call(
        "mount",
        source.encode() if source else None,
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
        about=target,
    )


def _pivot(root: str, old: str) -> None:
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"sandboxes know {', '.join(SYS_PIVOT_ROOT)}, not {os.uname().machine}")
    _call("syscall", ctypes.c_long(number), root.encode(), old.encode())


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _call(name: str, *arguments: object, about: str = "") -> None:
    """A function of the C library that answers 0. Raises OSError."""
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}{f' {about}' if about else ''}: {os.strerror(code)}")


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
