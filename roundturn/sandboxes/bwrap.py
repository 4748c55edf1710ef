"""Bubblewrap: a command sees the system's programs, its action directory, and no network (X-08, X-12, P132)."""

import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from roundturn.sandbox import Command, Confinement, SandboxRefused
from roundturn.sandboxes.seccomp import filter_program

PROGRAM = "bwrap"
# What may be seen, not what may not: no list of secrets is complete. /etc by file, because it has keys in it.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    "alternatives", "bash.bashrc", "bash_completion.d", "debian_version", "group", "host.conf", "hosts", "inputrc",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types", "nsswitch.conf",
    "os-release", "passwd", "profile", "protocols", "services", "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo",
    "timezone",
)  # fmt: skip
# An action directory that is one of these or contains one would put it back.
KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/var/run")))
BLOCKED = (*KERNEL, Path("/usr"), Path("/etc"))
HOMES = Path("/home")
PRIVATE = "/tmp"
PRIVATE_BYTES = 512 * 1024 * 1024
ISOLATED = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
    "--hostname", "sandbox", "--seccomp", "9",
)  # fmt: skip
# Outside: bubblewrap does not react to SIGTERM (it would take every process with it at once) and reads the filter.
# Inside: the command reacts to it again, and so has its grace.
OUTSIDE = ("/bin/sh", "-c", 'trap "" TERM; exec "$@" 9<"$0"')
INSIDE = ("/usr/bin/env", "--default-signal=TERM", "--")


class Bubblewrap:
    """Made by `sandboxes.choose`, which tries it first."""

    confinement = Confinement("bwrap", hides_state=True, hides_network=True)

    def __init__(self, program: Path, home: Path, outside: Sequence[Path] = ()) -> None:
        """`home` is the state directory; it is hidden by what it is now, not only by its name.

        `outside`: files of the state that are not in it; no action directory may contain one.
        """
        self._program = program
        self._home = home
        self._identity = _identity(home)
        self._outside = [
            path.resolve() for path in outside if not path.resolve().is_relative_to(home.resolve())
        ]
        self._filter = _in_memory(filter_program())

    def confine(self, command: Command) -> Command:
        """Raises `SandboxRefused` where the action directory or the state directory is not as it must be."""
        if _identity(self._home) != self._identity:
            raise SandboxRefused("the state directory is not the one that the worker started with")
        cwd = _directory(command.cwd)
        if any(path.is_relative_to(cwd) for path in self._outside):
            raise SandboxRefused(f"{cwd} cannot be an action directory: the store is in it")
        for path in command.hidden:  # a command could put something else in the place of the link
            for root in (cwd, command.cwd):
                if path.is_relative_to(root) and (
                    cwd / path.relative_to(root)
                ).resolve() != cwd / path.relative_to(root):
                    raise SandboxRefused(f"{path} is reached by a link in the action directory")
        bind = "--bind" if command.writable else "--ro-bind"
        argv = (
            *OUTSIDE,
            f"/proc/{os.getpid()}/fd/{self._filter}",
            str(self._program),
            *ISOLATED,
            *_system(),
            *(word for path in command.reads for word in ("--ro-bind", str(path), str(path))),
            *(bind, str(cwd), str(cwd)),
            *_hide((*command.hidden, self._home), (cwd, *command.reads), cwd, bind),
            *("--remount-ro", "/", "--chdir", str(cwd)),
            *("--setenv", "HOME", str(cwd), "--setenv", "PWD", str(cwd), "--setenv", "TMPDIR", PRIVATE),
            *("--", *INSIDE, *command.argv),
        )
        return replace(command, argv=argv, cwd=cwd)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as fault:
        raise SandboxRefused(f"the state directory cannot be found: {fault.strerror}") from fault
    return found.st_dev, found.st_ino


def _in_memory(content: bytes) -> int:
    """A file that the worker keeps open; nobody in a sandbox finds it."""
    file = os.memfd_create("roundturn-seccomp")
    os.write(file, content)
    return file


def _directory(path: Path) -> Path:
    try:
        cwd = path.resolve(strict=True)
    except (OSError, RuntimeError) as fault:
        raise SandboxRefused("the action directory cannot be found") from fault
    inside = any(cwd.is_relative_to(blocked) for blocked in BLOCKED)
    if inside or any(blocked.is_relative_to(cwd) for blocked in BLOCKED):
        raise SandboxRefused(f"{cwd} cannot be an action directory: it is part of the system or contains it")
    if _shows_a_home(cwd):
        raise SandboxRefused(f"{cwd} shows a home directory with its keys: choose a directory inside it")
    return cwd


def _shows_a_home(cwd: Path) -> bool:
    homes = (HOMES, Path(pwd.getpwuid(0).pw_dir), Path.home().resolve())
    return cwd.parent == HOMES or any(home.is_relative_to(cwd) for home in homes)


def _system() -> Iterator[str]:
    for name in SYSTEM:
        if os.path.islink(name):
            yield from ("--symlink", os.readlink(name), name)
        else:
            yield from ("--ro-bind-try", name, name)
    for name in ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    # Read-only: the settings of the kernel under /proc/sys belong to the worker's user where that is root.
    yield from ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
    yield from ("--size", str(PRIVATE_BYTES), "--tmpfs", PRIVATE)


def _held(path: Path, cwd: Path, bind: str) -> Iterator[str]:
    """What is mounted cannot be renamed: else a command could move `path` away while another one starts."""
    between = [parent for parent in path.parents if parent.is_relative_to(cwd) and parent != cwd]
    for parent in reversed(between):
        yield from (bind, str(parent), str(parent))


def _hide(hidden: Sequence[Path], visible: Sequence[Path], cwd: Path, bind: str) -> Iterator[str]:
    """Only what lies inside a tree that can be seen; everything else is not there in the first place."""
    for path in dict.fromkeys(path.resolve() for path in hidden):
        seen = any(path.is_relative_to(tree) for tree in (*visible, *map(Path, SYSTEM)))
        if not seen or cwd.is_relative_to(path):
            continue  # the session's own directory inside the home: nothing else of the home is visible
        if path.is_relative_to(cwd):
            yield from _held(path, cwd, bind)
        if path.is_dir():
            yield from ("--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", os.devnull, str(path))
