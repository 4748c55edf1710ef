"""Carries a command out: settings, log, signals and errors are the same for all of them."""

import asyncio
import os
import secrets
import shlex
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.exits import UNEXPECTED, Code, kind_of, leave
from gateway.cli.screen import Screen
from roundturn.errors import ConfigurationError, RoundturnError, Unavailable

if TYPE_CHECKING:  # heavy, and only their names are needed here
    from gateway.client import Client
    from roundturn.settings import Settings

GRACE_S = (
    2.0  # for closing what is open after Ctrl-C; a store that another process has locked is not waited for
)


@dataclass
class Scene:
    """What a command has around it. `farewell`: what to say to a person who leaves.

    `on_interrupt` answers the first Ctrl-C in place of leaving.
    """

    settings: "Settings"
    screen: Screen
    home: Path | None
    farewell: list[str] = field(default_factory=list)
    on_interrupt: Callable[[], None] | None = None

    def command(self, line: str) -> str:
        """A command that a person can type back, on the same home."""
        where = f" --home {shlex.quote(str(self.home))}" if self.home else ""
        return f"roundturn {line}{where}"


Work = Callable[[Scene], Awaitable[int]]


def perform(work: Work, screen: Screen, home: Path | None, verbose: bool) -> int:
    """Runs `work` to its exit code; whatever it raises becomes a message and a code."""
    return guarded(
        lambda settings: asyncio.run(_watched(work, Scene(settings, screen, home))), screen, home, verbose
    )


def guarded(work: "Callable[[Settings], int]", screen: Screen, home: Path | None, verbose: bool) -> int:
    """Settings and log for `work`; its errors in the words and codes of the command line."""
    import structlog

    from roundturn import settings, telemetry

    masking, debug = telemetry.Masking(), verbose
    telemetry.configure("debug" if verbose else "warning", masking, "cli")
    try:
        loaded = settings.load(home)
        debug = verbose or loaded.log_level == "debug"
        masking = telemetry.Masking(settings.held_secrets(loaded, os.environ))
        telemetry.configure("debug" if debug else "warning", masking, "cli")
        return work(loaded)
    except RoundturnError as fault:
        if (kind := kind_of(fault)) is not UNEXPECTED:
            screen.fault(kind, masking.text(fault.detail), fault.hint)
            return kind.code
        unexpected: Exception = fault
    except Exception as fault:  # noqa: BLE001 - the last place before a person: an id, not a traceback
        unexpected = fault
    error_id = f"e_{secrets.token_hex(4)}"
    said = masking.text(f"{type(unexpected).__name__}: {unexpected}")
    screen.calm()
    structlog.get_logger().error(
        "cli.unexpected", error_id=error_id, why=said, exc_info=unexpected if debug else None
    )
    screen.fault(UNEXPECTED, f"{said} (error id {error_id})", "the same command with --verbose shows where")
    return UNEXPECTED.code


async def _watched(work: Work, scene: Scene) -> int:
    """One signal leaves in an orderly way, a second one at once; on Ctrl-C the command may have its own answer."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work(scene))
    leaving: list[int] = []

    def on_signal(code: int) -> None:
        if leaving:
            leave(code)
        if code == Code.INTERRUPTED and scene.on_interrupt is not None:
            answer, scene.on_interrupt = scene.on_interrupt, None
            answer()
            return
        leaving.append(code)
        loop.call_later(GRACE_S, leave, code)
        _say_farewell(scene)
        task.cancel()

    loop.add_signal_handler(signal.SIGINT, on_signal, Code.INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, on_signal, Code.TERMINATED)
    try:
        return await task
    except BaseException:
        if leaving:
            return leaving[0]
        raise


def _say_farewell(scene: Scene) -> None:
    scene.screen.calm()
    if scene.screen.talks_to_person:
        scene.screen.talk()  # the terminal has echoed ^C
    for line in scene.farewell:
        scene.screen.talk(line)


@asynccontextmanager
async def opened(scene: Scene, *, temporal: bool = True, needed: bool = True) -> "AsyncIterator[Client]":
    """The store, and Temporal: asked for, or good to have (`needed=False`), or not used. Raises `Unavailable`."""
    from gateway.client import open_client
    from gateway.upgrade import missing_store

    if (missing := missing_store(scene.settings)) is not None:
        raise Unavailable(
            f"there is no Roundturn state in {missing}",
            "go to the directory where roundturn dev runs, give --home, or start one here: roundturn dev",
        )
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(
                open_client(scene.settings, temporal=temporal, needed=needed)
            )
        except ConfigurationError as fault:
            if "db upgrade" not in fault.hint:
                raise
            # A store of another version is something to bring up to date, not to configure.
            raise Unavailable(fault.detail, f"{fault.hint}, or start: roundturn dev") from fault
        yield client
