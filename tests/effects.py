"""Tools whose side effects can be counted, and that end when the test says so."""

import asyncio
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from roundturn.errors import Unavailable
from roundturn.tool import BaseTool, Effect, ToolContext, ToolResult
from roundturn.tools import addresses
from roundturn.tools.web import WebFetch


class Note(BaseModel):
    """`gate`: a file in the action directory that must appear before the tool ends."""

    text: str
    gate: str = ""


async def _passed(gate: Path) -> None:
    while not gate.exists():  # another process opens it: a file can only be looked for
        await asyncio.sleep(0.02)


def _append(context: ToolContext, line: str) -> None:
    with open(context.cwd / "effects.log", "a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


class _Noting(BaseTool):
    category = "tests"
    input_model = Note
    description = "Appends a line to effects.log."

    async def execute(self, arguments: Note, context: ToolContext) -> ToolResult:
        _append(context, f"{self.name} {arguments.text} {context.idempotency_key}")
        if arguments.gate:
            await _passed(context.cwd / arguments.gate)
        return ToolResult(output=f"noted {arguments.text}")


class NoteOnce(_Noting):
    name = "note_once"
    effect = Effect.ONCE


class NoteKeyed(_Noting):
    name = "note_keyed"
    effect = Effect.KEYED


class NotePure(_Noting):
    """Declared pure, so that its repetitions can be seen."""

    name = "note_pure"
    effect = Effect.PURE


class NoteBrief(_Noting):
    name = "note_brief"
    effect = Effect.PURE
    brief = True


class NoteLimited(_Noting):
    name = "note_limited"
    effect = Effect.ONCE
    limit_s = 1.0


class ArchiveNote(_Noting):
    name = "archive_note"
    description = "Moves a note to the archive."
    effect = Effect.ONCE
    exposure = "deferred"


class ArchiveWipe(ArchiveNote):
    name = "archive_wipe"
    description = "Empties the archive."


class ArchiveCount(ArchiveNote):
    name = "archive_count"
    description = "Says how many notes the archive holds."
    effect = Effect.PURE


class Size(BaseModel):
    size: int


class Huge(BaseTool):
    category = "tests"
    name = "huge"
    description = "Returns that many characters."
    input_model = Size
    effect = Effect.PURE

    async def execute(self, arguments: Size, context: ToolContext) -> ToolResult:
        return ToolResult(output="x" * arguments.size)


class Kind(BaseModel):
    kind: str


class Odd(BaseTool):
    """Returns or raises what cannot simply be stored or sent."""

    category = "tests"
    name = "odd"
    description = "Misbehaves in the way it is told."
    input_model = Kind
    effect = Effect.PURE

    async def execute(self, arguments: Kind, context: ToolContext) -> Any:
        match arguments.kind:
            case "nul":
                return ToolResult(output="a\x00b")
            case "surrogate":
                return ToolResult.model_construct(output="a\ud800b", is_error=False)
            case "value_error":
                raise ValueError("not this way")
            case "tells_a_file":
                raise ValueError((context.cwd / "found.txt").read_text())
            case "is_away_with_a_file":  # and on the next try it is not
                moved = (context.cwd / "found.txt").rename(context.cwd / "told.txt")
                raise Unavailable(moved.read_text())
            case "unprintable":
                raise Unprintable
            case "not_a_result":
                return {"when": object()}
            case _:
                raise AssertionError(arguments.kind)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ALL: tuple[type[BaseTool], ...] = (NoteOnce, NoteKeyed, NotePure, NoteBrief, NoteLimited, Huge, Odd)
DEFERRED: tuple[type[BaseTool], ...] = (ArchiveNote, ArchiveWipe, ArchiveCount)


def page_reader(port: int) -> WebFetch:
    """`web_fetch` under another name, to which this port on loopback is a public site."""

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    class ReadPage(WebFetch):
        name = "read_page"

    return ReadPage(
        resolve, lambda address, asked: "" if asked == port else addresses.refusal(address, asked)
    )


def effects(workdir: Path) -> list[str]:
    """The lines that were written, in order."""
    log: Any = workdir / "effects.log"
    return log.read_text().splitlines() if log.exists() else []
