"""A person's answer to a request: the commands that give it, a plain signal, and a question on the terminal."""

import asyncio
import json
import shlex
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.cli.screen import typed_line
from gateway.cli.text import one_line
from gateway.client import Client
from gateway.dev import processes
from gateway.dev.serve import home_option
from roundturn.approval import ApprovalRow
from roundturn.errors import Unavailable
from roundturn.settings import Settings

ACTOR = "demo"
LOOK_S = 0.05
SIGNAL_LIMIT_S = 30


class Person:
    """One request. `say` gets lines for whoever watches."""

    def __init__(
        self, client: Client, settings: Settings, row: ApprovalRow, say: Callable[[str], None]
    ) -> None:
        self._client = client
        self._settings = settings
        self._row = row
        self._say = say
        self._signal = _signalling(row, settings)

    def tell(self) -> None:
        self._say("this is how a person would do it (it asks back on a terminal):")
        self._say(f"  {program()} approvals approve {self._row.id}{home_option(self._settings.home)}")
        self._say("or, with Temporal's own program and nothing of ours:")
        self._say(f"  {shlex.join(self._signal)}")

    async def approve(self) -> None:
        """By the signal. Raises `Unavailable`."""
        await run(self._signal)

    async def outcome(self) -> ApprovalRow:
        """The row, once it is not pending any more."""
        while True:
            row = await self._client.store.approvals.read(self._row.id)
            if row is not None and row.state != "pending":
                return row
            await asyncio.sleep(LOOK_S)

    async def wait(self) -> None:
        """Until somebody decides, here or anywhere."""
        outcome = asyncio.create_task(self.outcome())
        waited_for: list[asyncio.Task[Any]] = [outcome]
        if sys.stdin.isatty():
            self._say("Enter sends that signal from here, d and Enter denies; or use one of these elsewhere")
            waited_for.append(asyncio.create_task(self.asked()))
        else:
            self._say("waiting for one of these")
        try:
            done, _ = await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in waited_for:
                task.cancel()

    async def asked(self) -> None:
        """Only what is typed after the question counts, and only an empty line says yes."""
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        while typed := await typed_line():
            match typed.strip():
                case "":
                    return await self.approve()
                case "d" | "D":
                    self._say("why not? (one line)")
                    why = one_line(await typed_line()) or "denied in the demo"
                    await self._client.decide(self._row.id, "deny", ACTOR, why)
                    return None
                case _:
                    self._say("Enter approves, d and Enter denies")
        self._say("waiting for one of these")  # the end of input
        await self.outcome()
        return None


def _signalling(row: ApprovalRow, settings: Settings) -> list[str]:
    verdict = {"approval_id": row.id, "verdict": "approve", "actor": ACTOR}
    return [
        "temporal" if shutil.which("temporal") else processes.temporal_binary(),
        *("workflow", "signal", "--address", settings.temporal_address),
        *("--workflow-id", row.workflow_id, "--name", "verdict", "--input", json.dumps(verdict)),
    ]


async def run(argv: list[str]) -> None:
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
