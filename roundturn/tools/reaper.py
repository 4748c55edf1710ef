"""Stands between the worker and one shell command, so that its processes end even if the worker is killed.

Started by its path, without site packages: `python -S -I reaper.py GRACE_S LINGER_S PROGRAM ARGUMENT...`.
Descriptor 0 is a pipe that the worker holds open: its end, also by the worker's death, means stop.
Descriptor 1 is the command's output. On descriptor 2 go two lines: the command's process id, then its exit
code (negative: the signal) and 1 if processes that it left behind had to be ended, else 0.

On Linux this process adopts every orphan below it (PR_SET_CHILD_SUBREAPER), so a descendant cannot get away
with `setsid` or a double fork. Limit: elsewhere only the command's own process group is ended. Limit: a
command runs as the worker's user; one that kills this process and hides its own environment gets away.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

SUBREAPER, DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG in <linux/prctl.h>
KILL_S = 2.0  # a killed process that is still there after this waits in the kernel; nothing ends it
OWN_STAT = "/proc/self/stat"
POLL_S = 0.05  # only where no signal tells that a process which is not a child has ended
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CONTROL, OUTPUT, STATUS = 0, 1, 2


class Command:
    """The command's first process and everything below it."""

    def __init__(self, argv: list[str]) -> None:
        self.code: int | None = None
        self.gone = False
        reaper = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the child no longer handles them
        self.pid = os.fork()
        if self.pid == 0:
            _become(argv, reaper, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def look(self) -> None:
        """Collects whoever has ended."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.code = os.waitstatus_to_exitcode(ended[1])
            return
        self.gone = not self.targets()

    def has_ended(self) -> bool:
        return self.code is not None

    def is_gone(self) -> bool:
        return self.gone

    def targets(self) -> set[int]:
        """What `os.kill` takes: the negative ids of the process groups below this process."""
        if os.path.exists(OWN_STAT):
            return {-group if group != os.getpgrp() else pid for pid, group in descendants(os.getpid())}
        try:
            os.killpg(self.pid, 0)
        except OSError:
            return set()
        return {-self.pid}

    def signal(self, number: int) -> None:
        """To whole groups at once: a group cannot fork faster than the kernel walks it."""
        for target in self.targets():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(target, number)


def descendants(root: int) -> list[tuple[int, int]]:
    """Process id and process group of everything below `root` (proc_pid_stat(5)); Linux only."""
    below: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                _, parent, group, *_ = file.read().rpartition(b")")[2].split()
                below.setdefault(int(parent), []).append((int(name), int(group)))
    found = list(below.get(root, []))
    for pid, _ in found:  # grows while it is walked
        found.extend(below.get(pid, []))
    return found


def holders(entry: bytes) -> list[int]:
    """Processes of this user whose environment has `entry`, as the kernel shows it; empty but on Linux."""
    found = []
    if os.path.exists(OWN_STAT):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if entry in file.read().split(b"\0") and os.fstat(file.fileno()).st_uid == os.getuid():
                        found.append(int(name))
    return found


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with suppress(ImportError, OSError):  # a Python without ctypes still has the process group
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become(argv: list[str], reaper: int, mask: Iterable[int]) -> None:
    """In the child: never returns."""
    try:
        os.setsid()
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != reaper:
            os._exit(127)
        for number in (*ENDING, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two: `yes | head`
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        os.execv(argv[0], argv)
    except OSError as fault:
        os.write(1, f"{argv[0]}: {fault.strerror}\n".encode())
    finally:
        os._exit(127)


class Bell:
    """Wakes the wait below for a signal; a wish to stop is the pipe's end or a signal to end."""

    def __init__(self) -> None:
        self.asked = False
        self.read, write = os.pipe()
        os.set_blocking(self.read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in ENDING:
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def rings(self, timeout_s: float | None, stoppable: bool) -> bool:
        """Waits for news; true when it is the wish to stop, which counts only if `stoppable`."""
        ready, _, _ = select.select([self.read, CONTROL] if stoppable else [self.read], [], [], timeout_s)
        if self.read in ready:
            os.read(self.read, 4096)
        return stoppable and (CONTROL in ready or self.asked)


def wait(
    command: Command, bell: Bell, ended: Callable[[], bool], limit_s: float | None, stoppable: bool
) -> bool:
    """Whether `ended` came true before the limit and before the wish to stop."""
    deadline = None if limit_s is None else time.monotonic() + limit_s
    while True:
        command.look()
        if ended():
            return True
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        if bell.rings(None if left is None else min(left, POLL_S), stoppable):
            return False


def end(command: Command, bell: Bell, grace_s: float) -> None:
    """SIGTERM, the grace, then SIGKILL again and again until nothing is left."""
    command.signal(signal.SIGTERM)
    wait(command, bell, command.is_gone, grace_s, stoppable=False)
    deadline = time.monotonic() + KILL_S
    while not command.gone and time.monotonic() < deadline:
        command.signal(signal.SIGKILL)
        wait(command, bell, command.is_gone, POLL_S, stoppable=False)


def report(line: str) -> None:
    with suppress(BrokenPipeError):  # the worker is dead; the command is ended all the same
        os.write(STATUS, line.encode())


def main(argv: list[str]) -> None:
    grace_s, linger_s = float(argv[0]), float(argv[1])
    bell = Bell()
    prctl(SUBREAPER, 1)
    command = Command(argv[2:])
    report(f"{command.pid}\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), OUTPUT)  # else the output would not end with the command
    finished = wait(command, bell, command.has_ended, None, stoppable=True)
    alone = finished and wait(command, bell, command.is_gone, linger_s, stoppable=True)
    if not alone:
        end(command, bell, grace_s)
    left_behind = int(finished and not alone)
    code = -signal.SIGKILL if command.code is None else command.code
    report(f"{code} {left_behind}\n")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
