"""Following a run and its subagents: their events as they come, over broken connections, and what a person sees."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from gateway.cli.approvals import summary
from gateway.cli.command import Scene
from gateway.cli.options import actor
from gateway.cli.rows import Rows
from gateway.cli.screen import Screen
from gateway.cli.text import short
from gateway.cli.tree import Branch, Tree
from roundturn.errors import RoundturnError, Unavailable

if TYPE_CHECKING:
    from gateway.client import Client
    from gateway.journals import Journals
    from roundturn.event import RunEvent

RETRY_S = 0.5
GIVE_UP_S = 60.0
NO_WORKER_S = 5.0
LINE_S = 15.0
SAFE = "Temporal does not answer. The message is safe and will be run when Temporal is back."


async def events_of(client: "Client", journals: "Journals", screen: Screen) -> "AsyncIterator[RunEvent]":
    """Goes on where it was: the first break is silent, a longer one is said, one of a minute raises `Unavailable`."""
    broken_since, breaks = None, 0
    while True:
        try:
            async for event in client.follow_journals(journals):
                broken_since, breaks = None, 0
                yield event
            return
        except Unavailable as fault:
            broken_since, breaks = broken_since or time.monotonic(), breaks + 1
            if time.monotonic() - broken_since > GIVE_UP_S:
                raise
            if breaks == 2:
                screen.talk(f"{fault.detail}; trying again", "yellow")
            await asyncio.sleep(RETRY_S)


async def show_progress(scene: Scene, tree: Tree) -> None:
    """Until it is cancelled: the live view where a person watches, a line every 15 s elsewhere."""
    if scene.screen.moves:
        from gateway.cli.live import Live

        try:
            await Live(tree, scene.screen.draw, scene.screen.columns, scene.command).run()
        finally:
            scene.screen.calm()
    while True:
        before = doing(tree)
        await asyncio.sleep(LINE_S)
        if (now := doing(tree)) == before:
            scene.screen.talk(f"  … {now}, {LINE_S:.0f} s")


def doing(tree: Tree) -> str:
    """What all that work are at, in one line."""
    if tree.is_alone:
        return tree.root.tally.doing()
    return "; ".join(f"{one.name}: {one.tally.doing()}" for one in tree if not one.tally.ended)


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


class Following:
    """A run under way: its tree's events to rows and to `show`, hints when nothing happens, an answer to Ctrl-C.

    `ahead`: how many messages of its session come before it.
    """

    def __init__(
        self,
        scene: Scene,
        client: "Client",
        tree: Tree,
        ahead: int,
        show: "Callable[[RunEvent, Branch], None]",
    ) -> None:
        self.tree = tree
        self._scene = scene
        self._client = client
        self._ahead = ahead
        self._show = show
        named = short if scene.screen.talks_to_person else str
        self._rows = Rows(tree, scene.command, named)
        self._stopping: asyncio.Task[None] | None = None
        say_how_to_return(scene, tree.root.run)

    def on_leaving(self, stop: bool) -> None:
        def begin() -> None:
            self._scene.screen.talk("stopping … (Ctrl-C again leaves)", "yellow")
            self._stopping = asyncio.create_task(self._stop())

        self._scene.on_interrupt = begin if stop else None

    async def _stop(self) -> None:
        try:
            await self._client.stop(self.tree.root.run, actor(None))
        except RoundturnError as fault:
            self._scene.screen.talk(f"the stop was not accepted: {fault.detail}", "red")

    async def until(self, approval: bool, timeout_s: float | None) -> str:
        """`ended`, `waits` for a person, or `timeout`."""
        works = [self._say_when_nothing_happens()]
        if self._scene.screen.progress:
            works.append(show_progress(self._scene, self.tree))
        try:
            async with asyncio.timeout(timeout_s) as limit, beside(*works):
                return await self._follow(approval)
        except TimeoutError:
            if not limit.expired():
                raise
            return "timeout"

    async def _follow(self, until_approval: bool) -> str:
        from gateway.journals import Journals

        async for event in events_of(self._client, Journals(self.tree.root.run), self._scene.screen):
            branch = self.tree.add(event)
            if branch is None:
                continue
            asks = event.type == "approval.requested"
            if asks:
                await self._look_at(branch, event.data)
            if self._scene.screen.progress:
                self._say(event, branch)
            self._show(event, branch)
            if until_approval and asks and await self._is_pending(event.data["approval_id"]):
                return "waits"
        return "ended"

    def _say(self, event: "RunEvent", branch: Branch) -> None:
        screen = self._scene.screen
        room = screen.columns() - 1 if screen.talks_to_person else None
        for row in self._rows.of(event, branch):
            screen.talk(row.fitted(room), row.style)

    async def _look_at(self, branch: Branch, data: dict[str, Any]) -> None:
        """What waits for a person is told as the lists of approvals tell it."""
        with suppress(Unavailable):
            row = await self._client.find_approval(data["approval_id"])
            branch.tally.tell(data["call"], summary(row.arguments))

    async def _is_pending(self, approval: str) -> bool:
        return (await self._client.find_approval(approval)).state == "pending"

    async def _say_when_nothing_happens(self) -> None:
        await asyncio.sleep(NO_WORKER_S)
        if self.tree.root.tally.started:
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
