"""Following a run: its events as they come, over broken connections, and what a person sees of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gateway.cli.approvals import summary
from gateway.cli.command import Scene
from gateway.cli.options import actor
from gateway.cli.screen import Pulse, Screen
from gateway.cli.text import clock, day_clock, elapsed, revealed, row_of, short
from roundturn.errors import RoundturnError, Unavailable

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.event import RunEvent

RETRY_S = 0.5
GIVE_UP_S = 60.0
NO_WORKER_S = 5.0
SAFE = "Temporal does not answer. The message is safe and will be run when Temporal is back."


async def events_of(client: "Client", run: str, after: int, screen: Screen) -> "AsyncIterator[RunEvent]":
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


def behind(position: int) -> str:
    return f"behind {position} earlier message(s) of this session"


def say_how_to_return(scene: Scene, run: str, stop: bool = True) -> None:
    """What Ctrl-C answers: the work goes on, here is how to see it again and how to end it."""
    again = f"  again: {scene.command(f'events {run} --follow')}"
    ending = f"        stop: {scene.command(f'stop {run}')}" if stop else ""
    scene.farewell = ["Left. The run goes on.", again + ending]


@dataclass(frozen=True)
class Asked:
    """A tool call as the journal shows it; `shown` is one masked line."""

    tool: str
    effect: str
    shown: str


@dataclass
class Tally:
    """Fed every event of one run in order, from the first."""

    text: str = ""  # of the message
    started: bool = False
    model_calls: int = 0
    calls: dict[str, Asked] = field(default_factory=dict)
    open_calls: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)  # approval -> call
    waited: timedelta = timedelta(0)
    _waiting_since: datetime | None = None

    def add(self, event: "RunEvent") -> None:
        data = event.data
        match event.type:
            case "message.accepted":
                self.text = str(data.get("text", ""))
            case "turn.started":
                self.started = True
            case "model.replied":
                self.model_calls += 1
            case "tool.requested":
                self._requested(data)
            case "tool.settled":
                self._settled(data)
            case "approval.requested":
                self._waiting_since = self._waiting_since or event.ts
                self.waiting[data["approval_id"]] = data["call"]
            case "approval.decided" | "approval.expired" | "approval.cancelled":
                self._answered(data["approval_id"], event.ts)

    def tool(self, data: dict[str, Any]) -> str:
        asked = self.calls.get(data["call"])
        return asked.tool if asked else str(data.get("tool", ""))

    def tell(self, call: str, shown: str) -> None:
        """In other words than the journal's."""
        if call in self.calls:
            self.calls[call] = replace(self.calls[call], shown=shown)

    def told(self, call: str) -> str:
        """Tool and what it was about, as a person reads it."""
        asked = self.calls.get(call)
        return row_of(f"{asked.tool} {asked.shown}") if asked else call

    def doing(self) -> str:
        """What the run is at, in a few words for a person who waits."""
        if not self.started:
            return "waiting for a worker"
        at_work = self.open_calls - set(self.waiting.values())  # a call that only reads is not announced
        if at_work:
            return f"running {', '.join(sorted({revealed(self.tool({'call': call})) for call in at_work}))}"
        return "waiting for a person" if self.waiting else "the model is thinking"

    def _requested(self, data: dict[str, Any]) -> None:
        self.calls[data["call"]] = Asked(data["tool"], data["effect"], data["shown"])
        self.open_calls.add(data["call"])

    def _settled(self, data: dict[str, Any]) -> None:
        self.open_calls.discard(data["call"])
        if data.get("error_type") == "outcome_unknown":
            self.unknown.append(data["call"])

    def _answered(self, approval: str, at: datetime) -> None:
        self.waiting.pop(approval, None)
        if not self.waiting and self._waiting_since is not None:
            self.waited += at - self._waiting_since
            self._waiting_since = None


class Rows:
    """The rows that a person sees while a run works."""

    def __init__(self, scene: Scene, tally: Tally) -> None:
        self._scene = scene
        self._tally = tally

    def show(self, event: "RunEvent") -> None:
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
                talk(f"  {mark} {data['state']} by {row_of(data['actor'])} {clock(event.ts)}", style)
            case "approval.expired":
                talk(
                    f"  ✗ {short(data['approval_id'])} expired {clock(event.ts)}; the call is refused", "red"
                )
            case "turn.stop_requested":
                talk(f"  ■ {row_of(data['origin'])} asked for a stop", "yellow")

    def _settled(self, data: dict[str, Any]) -> None:
        asked = self._tally.calls.get(data["call"])
        shown = row_of(asked.shown) if asked else ""
        took = elapsed(data["elapsed_ms"]) if "elapsed_ms" in data else ""
        once = "once" if asked and asked.effect == "once" else ""
        ended = data.get("error_type", "") or ("error" if data["is_error"] else "")
        mark = "✗" if data["is_error"] or data["status"] == "denied" else "✓"
        notes = "   ".join(note for note in (took, ended, once) if note)
        self._scene.screen.row(
            f"  {mark} {row_of(data['tool']):<10} {shown:<36} {notes}".rstrip(),
            "red" if mark == "✗" else "dim",
        )

    def _waits(self, data: dict[str, Any]) -> None:
        asked = self._tally.calls.get(data["call"])
        name = short(data["approval_id"]) if self._scene.screen.talks_to_person else data["approval_id"]
        shown = row_of(asked.shown) if asked else ""
        approve = self._scene.command(f"approvals approve {name}")
        deny = self._scene.command(f'approvals deny {name} --reason "…"')
        talk = self._scene.screen.talk
        talk(
            f"▲ {row_of(data['tool'])}  {shown}   waits for a person · {name} · until {expiry(data)}",
            "bold yellow",
        )
        talk(f"    in another terminal: {approve}")
        talk(f"    deny: {deny}")


def expiry(data: dict[str, Any]) -> str:
    return day_clock(datetime.fromisoformat(data["expires_at"]), datetime.now(UTC))


class Following:
    """A run under way: its events to rows and to `show`, hints when nothing happens, an answer to Ctrl-C.

    `ahead`: how many messages of its session come before it.
    """

    def __init__(
        self, scene: Scene, client: "Client", run: str, ahead: int, show: "Callable[[RunEvent], None]"
    ) -> None:
        self.tally = Tally()
        self._scene = scene
        self._client = client
        self._run = run
        self._ahead = ahead
        self._show = show
        self._rows = Rows(scene, self.tally)
        self._pulse = Pulse(scene.screen)
        self._stopping: asyncio.Task[None] | None = None
        say_how_to_return(scene, run)

    def on_leaving(self, stop: bool) -> None:
        def begin() -> None:
            self._scene.screen.talk("stopping … (Ctrl-C again leaves)", "yellow")
            self._stopping = asyncio.create_task(self._stop())

        self._scene.on_interrupt = begin if stop else None

    async def _stop(self) -> None:
        try:
            await self._client.stop(self._run, actor(None))
        except RoundturnError as fault:
            self._scene.screen.talk(f"the stop was not accepted: {fault.detail}", "red")

    async def until(self, approval: bool, timeout_s: float | None) -> str:
        """`ended`, `waits` for a person, or `timeout`."""
        works = [self._say_when_nothing_happens()]
        if self._scene.screen.progress:
            works.append(self._pulse.run())
        try:
            async with asyncio.timeout(timeout_s) as limit, beside(*works):
                return await self._follow(approval)
        except TimeoutError:
            if not limit.expired():
                raise
            return "timeout"

    async def _follow(self, until_approval: bool) -> str:
        self._pulse.now(self.tally.doing())
        async for event in events_of(self._client, self._run, 0, self._scene.screen):
            self.tally.add(event)
            if event.type == "approval.requested":
                await self._look_at(event.data)
            self._rows.show(event)
            self._pulse.now(self.tally.doing())
            self._show(event)
            asks = until_approval and event.type == "approval.requested"
            if asks and await self._client.approvals("pending", self._run, 1):
                return "waits"
        return "ended"

    async def _look_at(self, data: dict[str, Any]) -> None:
        """What waits for a person is told as the lists of approvals tell it."""
        with suppress(Unavailable):
            row = await self._client.find_approval(data["approval_id"])
            self.tally.tell(data["call"], summary(row.arguments))

    async def _say_when_nothing_happens(self) -> None:
        await asyncio.sleep(NO_WORKER_S)
        if self.tally.started:
            return
        if self._ahead:
            self._scene.screen.talk(behind(self._ahead), "yellow")
        else:
            settings = self._scene.settings
            temporal = settings.temporal_address or "the address in the environment"
            where = f"for {settings.home} with Temporal at {temporal}"
            self._scene.screen.talk(
                f"no worker has taken this up yet; is one running {where}? {self._scene.command('worker')}",
                "yellow",
            )
