"""The `list_files` tool: what is in a directory, with what was left out said (X-12)."""

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from roundturn.tool import (
    MAX_OUTPUT_BYTES,
    ArgumentKind,
    BaseTool,
    Effect,
    Permission,
    ToolContext,
    ToolResult,
)
from roundturn.tools import paths, textfile
from roundturn.tools.threads import reading
from roundturn.tools.walk import Walk, selects, size_of

MAX_SHOWN = 1_000
MAX_LEVELS = 32
TRAILER_BYTES = 2 * 1024
LIMIT_S = 0.5  # a brief tool ends within a second


class ListFilesInput(BaseModel, extra="forbid"):
    """Which directory, how deep, and which names."""

    path: str = Field(".", min_length=1, max_length=4096, description="Relative to the action directory.")
    depth: int = Field(1, ge=1, le=MAX_LEVELS, description="Levels of directories; 1 is this one alone.")
    glob: str = Field(
        "",
        max_length=200,
        description="Show only names like this, with * and ? (*.py); one with a slash is for the path (src/*.py).",
    )
    limit: int = Field(200, ge=1, le=MAX_SHOWN, description="How many entries at most.")


class ListFiles(BaseTool):
    """Shows kinds, sizes and names."""

    name = "list_files"
    description = (
        "List a directory in the action directory: kind (file, dir, link, other), size in bytes, path below it. "
        "Links are shown, never followed. A path in quotes has escapes: \\xNN is a byte that is not UTF-8."
    )
    input_model = ListFilesInput
    effect = Effect.PURE
    brief = True
    category = "files"
    permission = Permission.READ
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"path": "path"}

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed`: `path_refused`, `not_found`."""
        return ToolResult(output=await reading(partial(_list, arguments, context)))


def _list(arguments: ListFilesInput, context: ToolContext, stopped: threading.Event) -> str:
    walk = Walk(arguments.path, context, arguments.depth, LIMIT_S, stopped)
    rows: list[tuple[tuple[str, ...], str]] = []
    left = 0
    directories = walk.directories()
    try:
        for opened in directories:
            wanted = [entry for entry in opened.entries if selects(arguments.glob, entry)]
            room = arguments.limit - len(rows)
            left += len(wanted[room:])
            for entry in wanted[:room]:
                size = size_of(opened, entry.parts[-1]) if entry.kind == "file" else None
                told = "-" if size is None else str(size)
                name = paths.shown(entry.path) + "/" * (entry.kind == "dir")
                rows.append((entry.parts, f"{entry.kind:5} {told:>10}  {name}\n"))
            if len(rows) >= arguments.limit and (left or arguments.depth > 1):
                break
    except FileNotFoundError:
        raise textfile.not_found(arguments.path, context, "directory") from None
    finally:
        directories.close()
    return _page([row for _, row in sorted(rows)], left, walk, arguments)


def _page(rows: list[str], left: int, walk: Walk, arguments: ListFilesInput) -> str:
    room, fits = MAX_OUTPUT_BYTES - TRAILER_BYTES, 0
    for row in rows:
        room -= len(row.encode())
        if room < 0:
            break
        fits += 1
    notes = walk.omissions()
    if fits < len(rows):
        notes.append(f"... {len(rows) - fits} more found, too long to show; name a directory further down")
    if left:
        notes.append(f"... at least {left} more; use glob or a directory further down")
    elif len(rows) >= arguments.limit and arguments.depth > 1:
        notes.append("... perhaps more further down: the limit is reached")
    if not rows:
        sought = f"nothing of {walk.seen} entries is like {arguments.glob}"
        rows = [f"({sought if arguments.glob and walk.seen else 'nothing to show'})\n"]
        fits = 1
    return "".join(rows[:fits]) + "".join(f"{note}\n" for note in notes)
