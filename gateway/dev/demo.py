"""`roundturn demo`: one real job on a fresh home, its worker killed twice, and what that did not break."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.cli.approvals import summary
from gateway.cli.events import line_of, settled
from gateway.cli.screen import typed_line
from gateway.cli.text import clock, one_line, revealed, row_of
from gateway.client import Client, open_client
from gateway.color import ColorChoice
from gateway.dev import job, ports, processes
from gateway.dev.processes import Ports
from gateway.dev.serve import KILLED, Stack, home_option, locked
from gateway.dev.supervisor import supervised
from gateway.dev.talk import BOLD, DIM, GREEN, RED, Talk
from roundturn.approval import ApprovalRow
from roundturn.errors import RoundturnError, Unavailable
from roundturn.event import RunEvent
from roundturn.settings import DEV_FILE, Settings
from roundturn.store import FINAL

AGENT = "assistant"
ACTOR = "demo"
LOOK_S = 0.05
SIGNAL_LIMIT_S = 30
LIMIT_S = 120  # of a scripted run without a person; it takes about 20 s
PATIENCE_S = 3_600  # of one with a person or a real model


async def run_demo(
    home: Path | None, *, interactive: bool, color: ColorChoice = "auto", verbose: bool
) -> int:
    """0 when all that is claimed was counted and holds, else 1; 130 when it was left. Raises `Unavailable`.

    INTERACTIVE=1 waits for a person's decisions; OPENAI_API_KEY with MODEL=name takes a real model.
    """
    interactive = interactive or os.environ.get("INTERACTIVE") == "1"
    home = (home or Path(tempfile.mkdtemp(prefix="roundturn-demo-"))).expanduser().absolute()
    with locked(home):
        settings, scripted = _settings(home)
        temporal = ports.choose(processes.UI_DISTANCE)
        chosen = Ports(temporal, temporal + processes.UI_DISTANCE, ports.choose() if scripted else None)
        talk = Talk(sys.stdout, "demo", color)
        stack = Stack(
            processes.on_ports(settings, chosen),
            chosen,
            talk,
            processes.SCENARIOS / "demo.json",
            "no OPENAI_API_KEY with MODEL",
            home,
        )
        limit_s = LIMIT_S if scripted and not interactive else PATIENCE_S
        try:
            ended = await supervised(stack.supervisor, _demo(stack, interactive, verbose, limit_s))
        finally:
            (home / DEV_FILE).unlink(missing_ok=True)
        await stack.ended()
    code = KILLED if ended.why in ("asked", "killed") else ended.code
    _farewell(talk, home, code, ended.told)
    return code


def _settings(home: Path) -> tuple[Settings, bool]:
    """No other setting of this machine has a say: the demo is the same everywhere. And: is the model scripted?"""
    given = {
        name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()
    }
    given |= {"home": home, "allow_unverified_verdicts": True}
    key, model = os.environ.get("OPENAI_API_KEY"), os.environ.get("MODEL")
    if not (key and model):
        return Settings(**(given | {"model": processes.SCRIPTED_MODEL})), True
    given |= {"model": model, "model_api_key": SecretStr(key)}
    given["model_base_url"] = os.environ.get("OPENAI_BASE_URL", "")
    return Settings(**given), False


async def _demo(stack: Stack, interactive: bool, verbose: bool, limit_s: float) -> int:
    talk, began = stack.talk, time.monotonic()
    try:
        async with asyncio.timeout(limit_s), _playing(stack, interactive, verbose) as play:
            await play.job()
            proofs = await job.prove(play.client.store, play.workdir, play.events, len(play.kills))
            play.timeline()
            play.step("What was proved, by counting")
    except RoundturnError as fault:
        talk.line(f"\nthe demo failed: {fault.detail}\n{fault.hint}")
        return 1
    except TimeoutError:
        talk.line(f"\nthe demo failed: it did not end within {limit_s:.0f} s")
        return 1
    for proof in proofs:
        mark = talk.paint("✓", GREEN) if proof.holds else talk.paint("✗ NOT TRUE:", RED)
        talk.line(f"   {mark} {proof.text}")
    failed = sum(not proof.holds for proof in proofs)
    talk.line()
    if failed and play.denials:
        talk.line(
            f"you denied {play.denials} of the calls: the proofs that count what they would have done do not hold"
        )
        return 0
    talk.line(
        f"{failed} of {len(proofs)} proofs failed"
        if failed
        else f"all {len(proofs)} proofs hold: the worker was killed twice, no side effect was repeated"
    )
    talk.line(f"{time.monotonic() - began:.1f} s")
    return 1 if failed else 0


@asynccontextmanager
async def _playing(stack: Stack, interactive: bool, verbose: bool) -> AsyncIterator["Play"]:
    talk = stack.talk
    talk.line("roundturn demo · one real agent job on this machine; its worker is killed twice on the way")
    if stack.ports.model is not None:
        talk.line("The model is scripted: its answers are canned. All the rest is real: Temporal, the store,")
        talk.line("the worker, the tools, the files, the signals and the kills.")
    play = Play(stack, interactive, verbose)
    play.step("Everything starts")
    await stack.start()
    async with open_client(stack.settings) as client:
        play.client = client
        yield play


@dataclass
class Play:
    """One job, told as it happens, with the kills and decisions that belong to it."""

    stack: Stack
    interactive: bool
    verbose: bool
    client: Client = field(init=False)
    workdir: Path = field(init=False)
    events: list[RunEvent] = field(default_factory=list)
    kills: list[tuple[datetime, int]] = field(default_factory=list)
    steps: int = 0
    slow_is_told: bool = False
    denials: int = 0

    def step(self, title: str) -> None:
        self.steps += 1
        self.stack.talk.line()
        self.stack.talk.line(self.stack.talk.paint(f"{self.steps}  {title}", BOLD))

    def say(self, text: str) -> None:
        for line in text.splitlines():
            self.stack.talk.line(f"   {line}")

    async def job(self) -> None:
        """From the message to the answer."""
        home = self.stack.settings.home
        (home / "work").mkdir(exist_ok=True)
        self.workdir = Path(tempfile.mkdtemp(prefix="day-", dir=home / "work"))
        job.prepare(self.workdir)
        session = await self.client.open_session(AGENT, self.workdir)
        sent = await self.client.send(session.id, job.TASK)
        self.step("An agent gets a job")
        self.say(f"session {session.id} in {self.workdir}")
        self.say("\n".join(f"| {line}" for line in job.TASK.splitlines()))
        turn = sent.accepted.turn
        async for event in self.client.follow(turn):
            self.events.append(event)
            if self.verbose:
                self.say(self.stack.talk.paint(line_of(event), DIM))
            await self._on(event)
        row = await self.client.store.turns.read(turn)
        if row is None or row.state != "completed":
            raise Unavailable(f"the run ended as {row and row.state}: {row and row.reason}")
        self.say("\n".join(f"| {line}" for line in row.text.splitlines()))

    async def _on(self, event: RunEvent) -> None:
        match event.type:
            case "tool.requested":
                self.say(f"→ {revealed(event.data['tool'])}  {row_of(event.data['shown'])}")
            case "tool.started" if event.data["tool"] == "bash":
                await self._kill_in_the_act(event.data["call"])
            case "tool.settled":
                self._settled(event)
            case "approval.requested":
                row = await self.client.store.approvals.read(event.data["approval_id"])
                assert row is not None
                await (self._decide(row) if self.kills else self._first_approval(row))

    def _settled(self, event: RunEvent) -> None:
        if event.data.get("error_type") == "outcome_unknown":
            self.step("Its outcome is unknown, and nobody pretends otherwise: the agent looks, and reports")
        mark = "✗" if event.data["is_error"] else "✓"
        self.say(f"{mark} {row_of(settled(event.data))}")

    async def _first_approval(self, row: ApprovalRow) -> None:
        self.step("It wants to change something, and waits for a person")
        self.say(f"▲ {revealed(row.tool)}  {row_of(summary(row.arguments))}")
        self.say(f"  waits as {row.id}, because of the rule {row.rule}: {row.reason}")
        self.step("While it waits, its worker is killed")
        await self._kill_worker()
        still = await self.client.store.approvals.read(row.id)
        self.say(f"the request {row.id} is {still and still.state}, as before")
        self.step("A person decides")
        await self._decide(row)

    async def _decide(self, row: ApprovalRow) -> None:
        if len(self.kills) == 1 and not self.slow_is_told and row.tool == "bash" and self._decided():
            self.slow_is_told = True
            self.step("A slow command is allowed, and the worker is killed in the act")
        signalling = _signalling(row, self.stack.settings)
        if self.interactive or not self._decided():
            self.say("this is how a person would do it (it asks back on a terminal):")
            self.say(f"  {program()} approvals approve {row.id}{home_option(self.stack.settings.home)}")
            self.say("or, with Temporal's own program and nothing of ours:")
            self.say(f"  {shlex.join(signalling)}")
        if self.interactive:
            await self._person(row, signalling)
        else:
            await _run(signalling)
        decided = await self._outcome(row.id)
        by = f"{decided.actor or 'nobody'}" + (
            " (a name that nobody has verified)" if decided.unverified else ""
        )
        yes = decided.state in ("approved", "consumed")
        self.denials += decided.state == "denied"
        self.say(f"{'✓' if yes else '✗'} {row.id} is {'approved' if yes else decided.state}, by {by}")

    def _decided(self) -> bool:
        return any(event.type == "approval.decided" for event in self.events)

    async def _outcome(self, approval: str) -> ApprovalRow:
        """The row, once it is not pending any more."""
        while True:
            row = await self.client.store.approvals.read(approval)
            if row is not None and row.state != "pending":
                return row
            await asyncio.sleep(LOOK_S)

    async def _person(self, row: ApprovalRow, signalling: list[str]) -> None:
        """Until somebody decides, here or anywhere."""
        outcome = asyncio.create_task(self._outcome(row.id))
        waited_for: list[asyncio.Task[Any]] = [outcome]
        if sys.stdin.isatty():
            self.say("Enter sends that signal from here, d and Enter denies; or use one of these elsewhere")
            waited_for.append(asyncio.create_task(self._asked(row, signalling)))
        else:
            self.say("waiting for one of these")
        try:
            done, _ = await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in waited_for:
                task.cancel()

    async def _asked(self, row: ApprovalRow, signalling: list[str]) -> None:
        """Only what is typed after the question counts, and only an empty line says yes."""
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        while typed := await typed_line():
            match typed.strip():
                case "":
                    return await _run(signalling)
                case "d" | "D":
                    self.say("why not? (one line)")
                    why = one_line(await typed_line()) or "denied in the demo"
                    await self.client.decide(row.id, "deny", ACTOR, why)
                    return None
                case _:
                    self.say("Enter approves, d and Enter denies")
        self.say("waiting for one of these")  # the end of input
        await self._outcome(row.id)
        return None

    async def _kill_in_the_act(self, call: str) -> None:
        """Once, when a command has begun to change files and has not finished."""
        while len(self.kills) == 1:
            row = await self.client.store.ledger.read(call)
            if row is None or row.status in FINAL:
                return  # too quick, or not the slow one
            if job.in_the_act(self.workdir):
                self.say(f"it has begun: its first line is in {job.PUBLISHED}")
                await self._kill_worker()
                self.say("the dead worker had claimed the call; the claim runs out after some seconds …")
                return
            await asyncio.sleep(LOOK_S)

    async def _kill_worker(self) -> None:
        worker = self.stack.supervisor.children["worker"]
        await worker.up.wait()
        assert worker.pid is not None
        self.say(f"SIGKILL to the worker, pid {worker.pid}")
        self.kills.append((datetime.now(UTC), worker.pid))
        worker.signal(signal.SIGKILL)
        await worker.up.wait()

    def timeline(self) -> None:
        self.step("What the journal has about this run")
        told = [(event.ts, line_of(event)) for event in self.events]
        told += [
            (at, f"   -  SIGKILL              the worker, pid {pid} (told by the demo, not by the journal)")
            for at, pid in self.kills
        ]
        for at, text in sorted(told, key=lambda one: one[0]):
            self.say(f"{clock(at, fine=True)}  {text}")


def _signalling(row: ApprovalRow, settings: Settings) -> list[str]:
    verdict = {"approval_id": row.id, "verdict": "approve", "actor": ACTOR}
    return [
        "temporal" if shutil.which("temporal") else processes.temporal_binary(),
        *("workflow", "signal", "--address", settings.temporal_address),
        *("--workflow-id", row.workflow_id, "--name", "verdict", "--input", json.dumps(verdict)),
    ]


async def _run(argv: list[str]) -> None:
    """Raises `Unavailable` with what the program said."""
    ran = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=SIGNAL_LIMIT_S, check=False
    )
    if ran.returncode:
        raise Unavailable(f"{argv[0]} ended with code {ran.returncode}: {ran.stderr.strip()}")


def program() -> str:
    """How this very program is called from a shell that may not have its folder on PATH."""
    beside = Path(sys.executable).with_name("roundturn")
    return "roundturn" if shutil.which("roundturn") or not beside.exists() else shlex.quote(str(beside))


def _farewell(talk: Talk, home: Path, code: int, told: str) -> None:
    if told:
        talk.line(told)
    if code:
        talk.line(f"the logs are in {home / 'logs'}")
        return
    talk.line(f"all processes have ended; what they wrote is in {home}")
    talk.line()
    name = program()
    talk.line(f"next    {name} sessions{home_option(home)}      what is stored of this")
    talk.line(f"        {name} dev                            the same for your own work, until Ctrl-C")
    talk.line(f'        {name} run "hello"                    in another terminal')
