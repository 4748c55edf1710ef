"""The worker's side of one command: start it, collect its output, see it end whatever happens (P25)."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roundturn.tools import reaper
from roundturn.tools.capture import Capture

GRACE_S = 3.0  # between SIGTERM and SIGKILL (design section 12)
LINGER_S = 0.5  # for what the command left in the background, before it is ended too
STOP_S = GRACE_S + reaper.KILL_S + 1.0  # the supervisor has ended by then, or is not able to
DRAIN_S = 0.5  # for output that is still in the pipe when every process is gone
EXIT_POLL_S = 0.002
CHUNK_BYTES = 64 * 1024  # what a pipe holds on Linux
STATUS_BYTES = 4 * 1024
KEY = "IDEMPOTENCY_KEY"  # in the environment of every process of a call: by it they are found again
SWEEPS = 5
# Isolated and without site packages: it starts in a few milliseconds and cannot load what a command wrote.
_SUPERVISOR = (sys.executable, "-S", "-I", reaper.__file__)


@dataclass(frozen=True)
class Ending:
    """`code` as `subprocess` has it, None when the supervisor was killed before it knew."""

    code: int | None
    left_behind: bool


class Supervised:
    """One running command. `ended` is set when its processes are gone; always await `finish`."""

    def __init__(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], marker: str) -> None:
        """Starts the command. `marker` is an entry `NAME=value` of `environment` that no other run has.

        Raises `OSError` and `ValueError` as `subprocess.Popen` does. Needs a running loop.
        """
        self.capture = Capture()
        self.ended = asyncio.Event()
        self._drained = asyncio.Event()
        self._status = bytearray()
        self._marker = marker
        self._process = self._start(argv, cwd, environment)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._output, self._on_output)
        self._loop.add_reader(self._report, self._on_report)

    def _start(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Plain pipes rather than the loop's own: uvloop gives sockets, which /dev/stderr cannot reopen."""
        opened: list[int] = []
        try:
            for _ in range(3):
                opened += os.pipe()
            control, self._control, self._output, output, self._report, report = opened
            process = subprocess.Popen(
                [*_SUPERVISOR, str(GRACE_S), str(LINGER_S), *argv],
                stdin=control,
                stdout=output,
                stderr=report,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            _close(opened)
            raise
        _close([control, output, report])
        for end in (self._output, self._report):
            os.set_blocking(end, False)
        return process

    async def finish(self) -> Ending:
        """Stops whatever still runs, takes what is in the pipe and lets go of everything."""
        try:
            self._stop()
            obeyed = await self._supervisor_ends()
            ending = _parse(bytes(self._status))
            if not obeyed or ending.code is None:
                await asyncio.to_thread(self._sweep)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), DRAIN_S)
            return ending
        finally:
            self._release()

    def _stop(self) -> None:
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def _supervisor_ends(self) -> bool:
        """False when it had to be killed: the command stopped it or held on to its pipes."""
        deadline = time.monotonic() + STOP_S
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), STOP_S)
        # It exits right after its last word, and no event loop tells so on every platform.
        while self._process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(EXIT_POLL_S)
        return self._process.poll() is not None

    def _sweep(self) -> None:
        """Without a supervisor: the command's group, and whoever has the marker in its environment."""
        self._process.kill()
        self._process.wait()
        with suppress(ValueError, ProcessLookupError, PermissionError):
            if (group := int(self._status.partition(b"\n")[0])) > 1:
                os.killpg(group, signal.SIGKILL)
        for _ in range(SWEEPS):
            for pid in (found := reaper.holders(self._marker.encode())):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return
            time.sleep(EXIT_POLL_S)

    def _release(self) -> None:
        """Also when `finish` itself was cut short: closing the pipe makes the supervisor end the command."""
        self._stop()
        for end in (self._output, self._report):
            self._loop.remove_reader(end)
            os.close(end)

    def _on_output(self) -> None:
        with suppress(BlockingIOError):
            chunk = os.read(self._output, CHUNK_BYTES)
            self.capture.add(chunk)
            if not chunk:
                self._loop.remove_reader(self._output)
                self._drained.set()

    def _on_report(self) -> None:
        with suppress(BlockingIOError):
            chunk = os.read(self._report, STATUS_BYTES)
            self._status += chunk
            if not chunk or self._status.count(b"\n") >= 2 or len(self._status) > STATUS_BYTES:
                self._loop.remove_reader(self._report)
                self.ended.set()


def _parse(status: bytes) -> Ending:
    try:
        code, left_behind = status.splitlines()[1].split()
        return Ending(int(code), left_behind == b"1")
    except (IndexError, ValueError):
        return Ending(None, False)


def _close(ends: Sequence[int]) -> None:
    for end in ends:
        os.close(end)
