"""The incident as it is played: what is told of it, and the kills and decisions that belong to it."""

import asyncio
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from gateway.cli.approvals import summary
from gateway.cli.events import line_of
from gateway.cli.follow import beside
from gateway.cli.live import Live
from gateway.cli.rows import Rows
from gateway.cli.text import revealed, row_of
from gateway.cli.tree import Branch, Tree
from gateway.client import Client
from gateway.dev import incident
from gateway.dev.person import LOOK_S, Person, program
from gateway.dev.proofs import Evidence
from gateway.dev.serve import Stack, home_option
from gateway.dev.talk import BOLD, DIM
from gateway.dev.timeline import Kill
from gateway.journals import Journals
from roundturn.approval import ApprovalRow
from roundturn.errors import Unavailable
from roundturn.event import RunEvent
from roundturn.ledger import FINAL

WORKER, TEMPORAL = "worker", "temporal"
TOLD_OTHERWISE = ("approval.requested", "approval.decided")
PIPE_COLUMNS = 110  # nobody reads the demo's output but people


@dataclass
class Play:
    """One job, told as it happens; `events` are the whole tree's."""

    stack: Stack
    interactive: bool
    verbose: bool
    client: Client = field(init=False)
    workdir: Path = field(init=False)
    tree: Tree = field(init=False)
    events: list[RunEvent] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    denials: int = 0
    _steps: int = 0
    _decided: int = 0
    _is_asking: bool = False

    def step(self, title: str) -> None:
        self._steps += 1
        self.stack.talk.line()
        self.stack.talk.line(self.stack.talk.paint(f"{self._steps}  {title}", BOLD))

    def say(self, text: str) -> None:
        """Lines as they are: people copy from them."""
        for line in text.splitlines():
            self.stack.talk.line(f"   {line}")

    def explain(self, text: str) -> None:
        self.stack.talk.paragraph(text, "   ", "   ")

    def quote(self, text: str) -> None:
        for line in text.splitlines():
            self.stack.talk.paragraph(line, "   | ", "   | ")

    def evidence(self) -> Evidence:
        killed = [kill.name for kill in self.kills]
        return Evidence(self.client.store, self.workdir, self.tree, self.events, killed)

    async def job(self) -> None:
        """From the message to the answer."""
        home = self.stack.settings.home
        (home / "work").mkdir(exist_ok=True)
        self.workdir = Path(tempfile.mkdtemp(prefix="incident-", dir=home / "work"))
        incident.prepare(self.workdir)
        session = await self.client.open_session(incident.AGENT, self.workdir)
        sent = await self.client.send(session.id, incident.task())
        self.step("An agent gets a job")
        self.say(f"session {session.id} in {self.workdir}")
        self.quote(incident.task())
        run = sent.accepted.turn
        self.tree = Tree(run, incident.AGENT)
        async with beside(*([self._watch()] if self.stack.talk.moves else [])):
            await self._follow(run)
        turns = await self.client.turns_of_run(run)
        ended = self.tree.root.tally
        if ended.state != "completed":
            raise Unavailable(f"the run ended as {ended.state}: {ended.reason}")
        self.quote(turns[-1].text)

    async def _watch(self) -> None:
        talk = self.stack.talk
        try:
            await Live(self.tree, self._draw, talk.columns, self._command, self._what_is_down).run()
        finally:
            talk.region.clear()

    def _draw(self, lines: Sequence[Text]) -> None:
        if not self._is_asking:  # what a person types must not be drawn over
            self.stack.talk.region.draw(lines)

    def _command(self, line: str) -> str:
        return f"{program()} {line}{home_option(self.stack.settings.home)}"

    def _what_is_down(self) -> list[Text]:
        down = [name for name, child in self.stack.supervisor.children.items() if not child.up.is_set()]
        return [Text(f"✗ {name} was killed, it starts again", "bold red") for name in down]

    async def _follow(self, run: str) -> None:
        rows = Rows(self.tree, self._command)
        async for event in self.client.follow_journals(Journals(run)):
            branch = self.tree.add(event)
            assert branch is not None
            self.events.append(event)
            if self.verbose:
                self.say(self.stack.talk.paint(f"{branch.name}  {line_of(event)}", DIM))
            if event.type not in TOLD_OTHERWISE:
                for row in rows.of(event, branch):
                    self.say(self.stack.talk.paint(row.fitted(self.room()), DIM))
            await self._on(event, branch)

    def room(self) -> int:
        """For a row that may be cut."""
        return (self.stack.talk.columns() if self.stack.talk.moves else PIPE_COLUMNS) - len("   ") - 1

    async def _on(self, event: RunEvent, branch: Branch) -> None:
        match event.type:
            case "turn.started" if branch is not self.tree.root and self._are_at_work():
                await self._kill_temporal()
            case "tool.started" if event.data["tool"] == "bash":
                await self._kill_in_the_act(event.data["call"])
            case "tool.settled" if event.data.get("error_type") == "outcome_unknown":
                self.explain(
                    "its outcome is unknown, and nobody pretends otherwise: the agent looks, and goes on"
                )
            case "approval.requested":
                row = await self.client.store.approvals.read(event.data["approval_id"])
                assert row is not None
                branch.tally.tell(row.call, _short(row))
                await self._approval(row, branch)

    def _killed(self, name: str) -> int:
        return sum(kill.name == name for kill in self.kills)

    def _are_at_work(self) -> bool:
        """All subagents, and none of them has ended."""
        return not self._killed(TEMPORAL) and all(
            child.tally.started and not child.tally.ended for child in self.tree.root.children
        )

    async def _kill_temporal(self) -> None:
        self.step("Two subagents work at the same time, and Temporal itself is killed")
        await self._kill(TEMPORAL)
        self.explain("it finds its own file again; the worker waits for it and goes on")

    async def _approval(self, row: ApprovalRow, branch: Branch) -> None:
        self._decided += 1
        if self._decided == 1:
            self.step("It wants to change something, and waits for a person")
        elif row.tool == "bash" and self._killed(WORKER) == 1:
            self.step("The check is allowed, and the worker is killed in the act")
        self.say(f"▲ {branch.name} wants {revealed(row.tool)}  {row_of(_short(row))}")
        self.explain(f"it waits as {row.id}, because of the rule {row.rule}: {row.reason}")
        if not self._killed(WORKER):
            self.step("While it waits, its worker is killed")
            await self._kill(WORKER)
            still = await self.client.store.approvals.read(row.id)
            self.say(f"the request {row.id} is {still and still.state}, as before")
            self.step("A person decides")
        await self._decide(row)

    async def _decide(self, row: ApprovalRow) -> None:
        person = Person(self.client, self.stack.settings, row, self.say)
        if self.interactive or self._decided == 1:
            person.tell()
        if self.interactive:
            self._is_asking = True
            self.stack.talk.region.clear()
            await person.wait()
            self._is_asking = False
        else:
            await person.approve()
        decided = await person.outcome()
        by = f"{decided.actor or 'nobody'}" + (
            " (a name that nobody has verified)" if decided.unverified else ""
        )
        yes = decided.state in ("approved", "consumed")
        self.denials += decided.state == "denied"
        self.explain(f"{'✓' if yes else '✗'} {row.id} is {'approved' if yes else decided.state}, by {by}")

    async def _kill_in_the_act(self, call: str) -> None:
        """Once, when the check has begun and has not ended."""
        while self._killed(WORKER) == 1:
            row = await self.client.store.ledger.read(call)
            if row is None or row.status in FINAL:
                return  # too quick, or not the check
            if incident.in_the_act(self.workdir):
                self.say(f"it has begun: its first line is in {incident.CHECKS}")
                await self._kill(WORKER)
                self.explain("the dead worker had claimed the call; the claim runs out after some seconds")
                return
            await asyncio.sleep(LOOK_S)

    async def _kill(self, name: str) -> None:
        """And until it works again."""
        child = self.stack.supervisor.children[name]
        await child.up.wait()
        assert child.pid is not None
        self.say(f"✗ SIGKILL to {name}, pid {child.pid}")
        self.kills.append(Kill(datetime.now(UTC), name, child.pid))
        child.signal(signal.SIGKILL)
        await child.up.wait()


def _short(row: ApprovalRow) -> str:
    """Where it would write or what it would run; the whole is in `approvals show`."""
    said = row.arguments
    return str(said.get("path") or said.get("command") or summary(said))
