"""Child processes that end with their parent, are started again when they die, and write into log files."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

DEATHS, WINDOW_S = 5, 30.0  # so many deaths within so many seconds: it is given up
BACKOFF_S = (0.0, 0.25, 0.5, 1.0)  # before the next start, by the number of recent deaths
READY_S = 60.0
LAST_LINES = 20
START = "--- start at "
CAUSE = "error: "  # how our own programs begin their last words (`RoundturnError.lines`)
MISCONFIGURED = 2  # and how they end for a setting, definition or tool that is wrong
LOG_BYTES = 8 * 2**20  # a log that is longer becomes <name>.log.1
LOG_CHECK_S = 30.0
TAIL_BYTES = 64 * 2**10

# The kernel kills the child when the parent is gone, however it went (PR_SET_PDEATHSIG = 1 in <linux/prctl.h>; it
# stays over exec). Limit: elsewhere than on Linux a parent that was killed by SIGKILL leaves its children behind.
BOUND_TO_PARENT = """\
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Part:
    """What to run. `ready` takes the process id and returns once that very process does its work.

    `stop_s`: from SIGTERM to SIGKILL.
    """

    name: str
    argv: Sequence[str]
    ready: Callable[[int], Awaitable[None]]
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    stop_s: float = 5.0


class Log:
    """Appended to by the child itself, so that nothing is lost when the parent dies."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.keep_small()
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(opened, f"{START}{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n".encode())
        return opened

    def keep_small(self) -> None:
        """Emptied in place: the child goes on appending. What it writes during the copy is lost."""
        with suppress(OSError):
            if self.path.stat().st_size > LOG_BYTES:
                shutil.copyfile(self.path, self.path.with_name(self.path.name + ".1"))
                os.truncate(self.path, 0)

    def since_start(self) -> list[str]:
        """What the last process has written; of a long story the end."""
        with suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
            starts = [at for at, line in enumerate(lines) if line.startswith(START)]
            return lines[starts[-1] + 1 :] if starts else lines
        return []


def spawn(part: Part, log: Log) -> tuple[subprocess.Popen[bytes], asyncio.Future[int]]:
    """The process, in a session of its own, and its exit code to come. From the loop's main thread only:

    the death signal is bound to the thread that forks.
    """
    bound = (sys.executable, "-S", "-E", "-I", "-c", BOUND_TO_PARENT, str(os.getpid()))
    output = log.open()
    try:
        process = subprocess.Popen(
            [*bound, *part.argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=part.env,
            cwd=part.cwd,
            start_new_session=True,
        )
    finally:
        os.close(output)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        code = process.wait()
        with suppress(RuntimeError):  # the loop was closed: nobody asks any more
            loop.call_soon_threadsafe(ended.set_result, code)

    threading.Thread(target=wait, name=f"wait-{part.name}", daemon=True).start()
    return process, ended


class Child:
    """One part, kept running. `up` is set while the process that `pid` names does its work."""

    def __init__(self, part: Part, log: Log, needs: Sequence["Child"], supervisor: "Supervisor") -> None:
        self.part = part
        self.log = log
        self.up = asyncio.Event()
        self.pid: int | None = None
        self.took_s = 0.0
        self._needs = needs
        self._supervisor = supervisor
        self._ended: asyncio.Future[int] | None = None
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._has_worked = False
        self._stopping = False
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(self._kept)

    def signal(self, number: int) -> None:
        """SIGKILL goes to the whole group, everything else to the process, which knows what to do with its own."""
        if self.pid is None or self._ended is None or self._ended.done():
            return
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                self.up.clear()
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    async def stop(self) -> None:
        self._stopping = True
        if self._ended is None or self._ended.done():
            self._keeper.cancel()  # nothing runs: it waits before its next start
        else:
            self.signal(signal.SIGTERM)
            await asyncio.wait({self._ended}, timeout=self.part.stop_s)
            self.signal(signal.SIGKILL)
        await asyncio.wait({self._keeper})

    def stop_at_once(self) -> None:
        self._stopping = True
        self.signal(signal.SIGKILL)

    async def _keep(self) -> None:
        while True:
            for needed in self._needs:
                await needed.up.wait()
            process, self._ended = spawn(self.part, self.log)
            self.pid = process.pid
            code = await self._watch(process.pid, self._ended)
            self.up.clear()
            if self._stopping:
                return
            self._deaths.append(time.monotonic())
            if self._is_hopeless(code):
                self._supervisor.give_up(self, code)
                return
            self._supervisor.say(
                f"{self.part.name} (pid {process.pid}) {how_it_ended(code)}; it starts again"
            )
            await asyncio.sleep(BACKOFF_S[min(self._recent_deaths(), len(BACKOFF_S)) - 1])

    async def _watch(self, pid: int, ended: asyncio.Future[int]) -> int:
        """Until the process has ended; on the way says when it is ready."""
        began = time.monotonic()
        ready = asyncio.ensure_future(self.part.ready(pid))
        try:
            await _first_of(ready, ended, limit_s=READY_S)
            if not ended.done() and ready.done():
                ready.result()
                self._is_up(time.monotonic() - began)
            elif not ended.done():
                self._supervisor.say(f"{self.part.name} is not ready after {READY_S:.0f} s")
                self.signal(signal.SIGKILL)
            while not ended.done():
                await asyncio.wait({ended}, timeout=LOG_CHECK_S)
                self.log.keep_small()
        finally:
            ready.cancel()
        return ended.result()

    def _is_up(self, took_s: float) -> None:
        again, self._has_worked, self.took_s = self._has_worked, True, took_s
        self.up.set()
        if again:
            self._supervisor.say(f"{self.part.name} is back (pid {self.pid}) after {took_s:.1f} s")
        self._supervisor.changed()

    def _recent_deaths(self) -> int:
        return sum(death > time.monotonic() - WINDOW_S for death in self._deaths)

    def _is_hopeless(self, code: int) -> bool:
        """What ended by itself before it ever worked has said why; it would only say it again."""
        return (code >= 0 and not self._has_worked) or self._recent_deaths() >= DEATHS

    def _kept(self, keeper: asyncio.Task[None]) -> None:
        if not keeper.cancelled() and (defect := keeper.exception()) and not self._supervisor.failed.done():
            self._supervisor.failed.set_exception(defect)


@dataclass(frozen=True)
class GivenUp:
    """`code`: how whoever has started the children should end."""

    code: int
    told: str


class Supervisor:
    """The children in the order of their start; they are stopped in the opposite one.

    `say` gets a line for people; `changed` is called when a child has come up. `failed` is done when a child was
    given up.
    """

    def __init__(
        self, logs: Path, say: Callable[[str], None], changed: Callable[[], None] = lambda: None
    ) -> None:
        self.children: dict[str, Child] = {}
        self.failed: asyncio.Future[GivenUp] = asyncio.get_running_loop().create_future()
        self.say = say
        self.changed = changed
        self.logs = logs

    def start(self, part: Part, needs: Sequence[Child] = ()) -> Child:
        """`needs`: each start waits until these are up."""
        child = Child(part, Log(self.logs / f"{part.name}.log"), needs, self)
        self.children[part.name] = child
        return child

    def give_up(self, child: Child, code: int) -> None:
        """The cause stands first, below it all else that this last process has said."""
        cause, others = told_apart(child.log.since_start())
        lines = [f"{child.part.name} {how_it_ended(code)} and is given up{': ' if cause else '.'}{cause}"]
        if others:
            lines.append(f"Its lines before that ({child.log.path}):")
            lines.extend(f"  | {line}" for line in others[-LAST_LINES:])
        if not self.failed.done():
            self.failed.set_result(GivenUp(MISCONFIGURED if code == MISCONFIGURED else 1, "\n".join(lines)))

    async def stop(self) -> None:
        for child in reversed(self.children.values()):
            began = time.monotonic()
            await child.stop()
            self.say(f"{child.part.name} stopped ({time.monotonic() - began:.1f} s)")

    def kill(self) -> None:
        for child in self.children.values():
            child.stop_at_once()


@dataclass(frozen=True)
class Ended:
    """`done`: the work ended, with `code`. `asked`: by a signal. `killed`: by a second one. `failed`: see `told`."""

    why: Literal["done", "asked", "killed", "failed"]
    code: int = 0
    told: str = ""


async def supervised(supervisor: Supervisor, work: Coroutine[Any, Any, int]) -> Ended:
    """Runs `work` until it ends, a child is given up, or SIGINT, SIGTERM or SIGHUP asks for the end.

    No child is left afterwards. A signal while they are being stopped kills them at once.
    """
    task = asyncio.create_task(work)
    asked = killed = stopping = False

    def ask() -> None:
        nonlocal asked, killed
        if asked or stopping:
            killed = True
            supervisor.kill()
        else:
            asked = True
            task.cancel()

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, ask)
    try:
        await _first_of(task, supervisor.failed)
        task.cancel()
        await asyncio.wait({task})
        if asked:
            supervisor.say("stopping; again: at once, without waiting")
        stopping = True
        await supervisor.stop()
    finally:
        supervisor.kill()
        for number in numbers:
            loop.remove_signal_handler(number)
    if asked or killed:
        return Ended("killed" if killed else "asked")
    if supervisor.failed.done():
        given_up = supervisor.failed.result()
        return Ended("failed", given_up.code, given_up.told)
    return Ended("done", task.result())


async def _first_of(*futures: asyncio.Future[Any], limit_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)


def how_it_ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def told_apart(lines: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Why a program ended, and what else it said: our programs name it, of a traceback it is the last line."""
    at = max((number for number, line in enumerate(lines) if line.startswith(CAUSE)), default=len(lines) - 1)
    return "\n".join(lines[max(at, 0) :]).removeprefix(CAUSE), lines[: max(at, 0)]
