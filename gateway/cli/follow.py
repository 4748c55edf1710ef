"""Following a run: its events as they come, over broken connections, with a row for each thing worth seeing."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.cli.screen import Screen
from gateway.cli.stage import Scene
from gateway.cli.tally import Tally
from gateway.cli.wording import expiry
from gateway.cli.words import clock, elapsed, short
from gateway.client import Client
from roundturn.errors import Unavailable
from roundturn.event import RunEvent

RETRY_S = 0.5
GIVE_UP_S = 60.0
NO_WORKER_S = 5.0


async def events_of(client: Client, run: str, after: int, screen: Screen) -> AsyncIterator[RunEvent]:
    """Resumes by offset: the first break is silent, a longer one is said, one of a minute raises `Unavailable`."""
    broken_since, breaks = None, 0
    while True:
        try:
            async for event in client.follow(run, after):
                after, broken_since, breaks = event.offset, None, 0
                yield event
            return
        except Unavailable as fault:
            broken_since, breaks = broken_since or time.monotonic(), breaks + 1
            if time.monotonic() - broken_since > GIVE_UP_S:
                raise
            if breaks == 2:
                screen.talk(f"{fault.detail}; trying again", "yellow")
            await asyncio.sleep(RETRY_S)


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `works` while the block does, and not longer."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


def say_how_to_return(scene: Scene, run: str, stop: bool = True) -> None:
    """What Ctrl-C answers: the work goes on, here is how to see it again and how to end it."""
    again = f"  again: {scene.command(f'events {run} --follow')}"
    ending = f"        stop: {scene.command(f'stop {run}')}" if stop else ""
    scene.farewell = ["Left. The run goes on.", again + ending]


class Rows:
    """The rows that a person sees while a run works."""

    def __init__(self, scene: Scene, tally: Tally) -> None:
        self._scene = scene
        self._tally = tally

    def show(self, event: RunEvent) -> None:
        """After the tally has heard of the event."""
        if not self._scene.screen.progress:
            return
        data, talk = event.data, self._scene.screen.talk
        match event.type:
            case "tool.settled":
                self._settled(data)
            case "approval.requested":
                self._waits(data)
            case "approval.decided":
                mark, style = ("✓", "green") if data["state"] == "approved" else ("✗", "red")
                talk(f"  {mark} {data['state']} by {data['actor']} {clock(event.ts)}", style)
            case "approval.expired":
                talk(
                    f"  ✗ {short(data['approval_id'])} expired {clock(event.ts)}; the call is refused", "red"
                )
            case "turn.stop_requested":
                talk(f"  ■ {data['origin']} asked for a stop", "yellow")

    def _settled(self, data: dict[str, Any]) -> None:
        asked = self._tally.calls.get(data["call"])
        shown = asked.shown if asked else ""
        took = elapsed(data["elapsed_ms"]) if "elapsed_ms" in data else ""
        once = "once" if asked and asked.effect == "once" else ""
        ended = data.get("error_type", "") or ("error" if data["is_error"] else "")
        mark = "✗" if data["is_error"] or data["status"] == "denied" else "✓"
        notes = "   ".join(note for note in (took, ended, once) if note)
        self._scene.screen.row(
            f"  {mark} {data['tool']:<10} {shown:<36} {notes}".rstrip(), "red" if mark == "✗" else "dim"
        )

    def _waits(self, data: dict[str, Any]) -> None:
        asked = self._tally.calls.get(data["call"])
        name = short(data["approval_id"]) if self._scene.screen.talks_to_person else data["approval_id"]
        line = f"▲ {data['tool']}  {asked.shown if asked else ''}   waits for a person · {name} · until {expiry(data)}"
        self._scene.screen.talk(line, "bold yellow")
        self._scene.screen.talk(f"    approve: {self._scene.command(f'approvals approve {name}')}")
