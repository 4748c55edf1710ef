"""Bubblewrap: a command sees the system's programs, its action directory, and no network (X-08, X-12, P132)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from roundturn.sandbox import Command, Confinement, SandboxRefused

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
PRIVATE = "/tmp"
PRIVATE_BYTES = 512 * 1024 * 1024
ISOLATED = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
    "--hostname", "sandbox",
)  # fmt: skip


class Bubblewrap:
    """Made by `sandboxes.choose`, which tries it first."""

    confinement = Confinement("bwrap", hides_state=True, hides_network=True)

    def __init__(self, program: Path, home: Path) -> None:
        """`home` is the state directory; it is hidden by what it is now, not only by its name."""
        self._program = program
        self._home = home
        self._identity = _identity(home)

    def confine(self, command: Command) -> Command:
        """Raises `SandboxRefused` where the action directory or the state directory is not as it must be."""
        if _identity(self._home) != self._identity:
            raise SandboxRefused("the state directory is not the one that the worker started with")
        cwd = _directory(command.cwd)
        bind = "--bind" if command.writable else "--ro-bind"
        argv = (
            str(self._program),
            *ISOLATED,
            *_system(),
            *(word for path in command.reads for word in ("--ro-bind", str(path), str(path))),
            *(bind, str(cwd), str(cwd)),
            *_hide((*command.hidden, self._home), (cwd, *command.reads), cwd),
            *("--remount-ro", "/", "--chdir", str(cwd)),
            *("--setenv", "HOME", str(cwd), "--setenv", "PWD", str(cwd), "--setenv", "TMPDIR", PRIVATE),
            "--",
            *command.argv,
        )
        return replace(command, argv=argv, cwd=cwd)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as fault:
        raise SandboxRefused(f"the state directory cannot be found: {fault.strerror}") from fault
    return found.st_dev, found.st_ino


def _directory(path: Path) -> Path:
    try:
        cwd = path.resolve(strict=True)
    except (OSError, RuntimeError) as fault:
        raise SandboxRefused("the action directory cannot be found") from fault
    inside = any(cwd.is_relative_to(blocked) for blocked in BLOCKED)
    if inside or any(blocked.is_relative_to(cwd) for blocked in BLOCKED):
        raise SandboxRefused(f"{cwd} cannot be an action directory: it is part of the system or contains it")
    return cwd


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


def _hide(hidden: Sequence[Path], visible: Sequence[Path], cwd: Path) -> Iterator[str]:
    """Only what lies inside a tree that can be seen; everything else is not there in the first place."""
    for path in dict.fromkeys(path.resolve() for path in hidden):
        seen = any(path.is_relative_to(tree) for tree in (*visible, *map(Path, SYSTEM)))
        if not seen or cwd.is_relative_to(path):
            continue  # the session's own directory inside the home: nothing else of the home is visible
        if path.is_dir():
            yield from ("--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", os.devnull, str(path))
