"""The `bash` tool: a shell command with bounded processes, environment and output (T-12, P25, P27, P132)."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator

from roundturn.errors import ToolFailed
from roundturn.sandbox import Command, Sandbox
from roundturn.shell import judge
from roundturn.tool import (
    MAX_OUTPUT_BYTES,
    ArgumentKind,
    Asking,
    BaseTool,
    Effect,
    Permission,
    ToolContext,
    ToolResult,
)
from roundturn.tools.capture import Capture
from roundturn.tools.supervised import KEY, STOP_S, Ending, Supervised
from roundturn.tools.threads import to_the_end

MAX_COMMAND_CHARS = 32_768
MAX_TIMEOUT_S = 3_600
DEFAULT_TIMEOUT_S = 120  # design section 12
SHELLS = (Path("/bin/bash"), Path("/bin/sh"))
NOTES_BYTES = 512  # of these, for what is said about the output
LOCALE = ("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
PASSED_ON = (*LOCALE, "TZ", "TMPDIR")


class BashInput(BaseModel, extra="forbid"):
    """One command line and how long it may take."""

    command: str = Field(min_length=1, max_length=MAX_COMMAND_CHARS, description="What `bash -c` runs.")
    timeout_s: int = Field(
        DEFAULT_TIMEOUT_S, ge=1, le=MAX_TIMEOUT_S, description="Seconds after which its processes are ended."
    )

    @field_validator("command")
    @classmethod
    def has_no_nul(cls, command: str) -> str:
        if "\x00" in command:
            raise ValueError("a command cannot contain NUL")
        return command


class Bash(BaseTool):
    """Runs at most once; no process of the command outlives the call.

    Limit: without a sandbox the command runs as the worker's user and could read /proc/<worker>/environ. The
    parent that it sees has the same short environment as the command itself.
    """

    name = "bash"
    description = (
        "Run a shell command in the action directory, without input and with a short environment. Answers "
        "with stdout and stderr in one; of a long output with its beginning and end. Processes that the "
        "command leaves in the background are ended with it."
    )
    input_model = BashInput
    effect = Effect.ONCE
    limit_s = MAX_TIMEOUT_S + STOP_S + 10.0  # T-12: more than the tool's own limit
    category = "shell"
    permission = Permission.EXECUTE
    privileged = True
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"command": "command"}

    def is_read_only(self, arguments: Any) -> bool:
        return judge(arguments.command).read_only

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        # Where nothing hides state and network, nothing waives a person (design section 6).
        self.approval: Asking = "required" if sandbox.confinement.is_complete else "always"

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed` of kind `not_started` when there was no process at all."""
        shell = next((path for path in SHELLS if os.access(path, os.X_OK)), None)
        if shell is None:
            raise ToolFailed("There is no shell on this machine; ask the operator", "not_started")
        command = _start((str(shell), "-c", arguments.command), context, self._sandbox)
        timed_out = False
        try:
            async with asyncio.timeout(arguments.timeout_s):
                await command.ended.wait()
        except TimeoutError:
            timed_out = True
        finally:
            ending = await to_the_end(command.finish())
        notes = _notes(ending, arguments.timeout_s if timed_out else None)
        if shell != SHELLS[0]:
            notes.append(f"{SHELLS[0]} is missing on this machine: {shell} ran the command")
        return _result(command.capture, notes, is_error=timed_out or ending.code != 0)


def environment(context: ToolContext, own: Mapping[str, str]) -> dict[str, str]:
    """All that a command gets to see, by a list of what may pass: no list of secrets is complete (P132)."""
    passed_on = {name: own[name] for name in PASSED_ON if name in own}
    return passed_on | {
        "PATH": _fixed_places(own.get("PATH", ""), context.cwd) or os.defpath,
        "LANG": own.get("LANG") or "C.UTF-8",
        "HOME": str(context.cwd),
        "TERM": "dumb",
        KEY: context.idempotency_key,
    }


def _fixed_places(path: str, cwd: Path) -> str:
    """Without entries that lead into the action directory: through these a file in it is run in a program's name (P128)."""
    root = os.path.realpath(cwd)
    return os.pathsep.join(
        place
        for place in path.split(os.pathsep)
        if os.path.isabs(place) and not Path(os.path.realpath(place)).is_relative_to(root)
    )


def _start(argv: tuple[str, ...], context: ToolContext, sandbox: Sandbox) -> Supervised:
    marker = f"{KEY}={context.idempotency_key}"
    try:
        seen = environment(context, os.environ)
        started = sandbox.confine(Command(argv, context.cwd, seen, context.protected))
        return Supervised(started.argv, started.cwd, started.environment, marker)
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise ToolFailed(f"The command was not started: {why}", "not_started") from fault


def _notes(ending: Ending, limit_s: int | None) -> list[str]:
    notes = []
    if limit_s is not None:
        notes.append(f"timed out after {limit_s} s: its processes were ended, the output is partial")
    elif ending.code is None:
        notes.append("the command's supervisor was killed: whether the command finished is unknown")
    elif ending.code < 0:
        notes.append(f"killed by signal {-ending.code} ({_signal_name(-ending.code)})")
    elif ending.code > 0:
        notes.append(f"exit code {ending.code}")
    if ending.left_behind and limit_s is None:
        notes.append("processes that it left in the background were ended")
    return notes


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "unnamed"


def _result(capture: Capture, notes: list[str], is_error: bool) -> ToolResult:
    text = capture.text(MAX_OUTPUT_BYTES - NOTES_BYTES)
    if not text:
        text = "(no output)"
    if notes and not text.endswith("\n"):
        text += "\n"
    return ToolResult(output=text + "\n".join(notes), is_error=is_error)
