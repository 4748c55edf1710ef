"""The `edit_file` tool: exact replacement in one text file that loses nobody's change (T-11, X-12)."""

import os
import threading
from collections.abc import Mapping
from functools import partial
from io import FileIO
from itertools import islice
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator

from roundturn.errors import ToolFailed
from roundturn.tool import ArgumentKind, BaseTool, Effect, Permission, ToolContext, ToolResult
from roundturn.tools import paths, replacement, textfile
from roundturn.tools.nearest import nearest
from roundturn.tools.threads import changing

MAX_TEXT_BYTES = 1_000_000
MAX_FILE_BYTES = 10_000_000
SHOWN_LINES = 10
MAX_PLACES = 10_000  # looked at one by one; the rest is only counted
TRIES = 3  # when somebody who takes no lock changes the file between our reading and writing


class EditFileInput(BaseModel, extra="forbid"):
    """What is to be replaced by what in which file."""

    path: str = Field(min_length=1, max_length=4096, description="File, relative to the action directory.")
    old: str = Field(
        min_length=1,
        max_length=MAX_TEXT_BYTES,
        description="The exact text that is there now, without line numbers; enough lines to occur only once.",
    )
    new: str = Field(max_length=MAX_TEXT_BYTES, description="What stands there afterwards; may be empty.")
    replace_all: bool = Field(False, description="Replace every occurrence instead of the only one.")

    @field_validator("old", "new")
    @classmethod
    def fits(cls, text: str) -> str:
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise ValueError(f"it has more than {MAX_TEXT_BYTES} bytes; edit in parts")
        return text


class EditFile(BaseTool):
    """Runs *at most once*: the file alone does not tell whether an edit that was interrupted had been made.

    A repeat would find `old` again when `new` contains it (docs/decisions/0019-an-edit-is-once.md).
    """

    name = "edit_file"
    description = (
        "Replace exact text in a UTF-8 file of the action directory. `old` must occur exactly once, unless "
        "replace_all. Line endings, mode and everything else stay as they are."
    )
    input_model = EditFileInput
    effect = Effect.ONCE
    limit_s = 30.0
    category = "files"
    permission = Permission.WRITE
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"path": "path"}

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed`: `path_refused`, `not_found`, `is_directory`, `binary_file`, `too_big`, `no_change`,
        `old_not_found`, `ambiguous`, `already_there`, `changed_meanwhile`, `busy`, `write_failed`.
        """
        return ToolResult(output=await changing(partial(_edit, arguments, context)))


def _edit(arguments: EditFileInput, context: ToolContext, stopped: threading.Event) -> str:
    path = arguments.path
    try:
        with paths.confined_place(path, context) as place, replacement.alone(place, stopped):
            for _ in range(TRIES):
                content, before = _content(place, context)
                changed, said = replaced(arguments, content)
                if stopped.is_set():
                    raise ToolFailed(f"{path} was not changed: the call was cancelled", "cancelled")
                if _content(place, context)[0] == content:
                    replacement.replace(place, changed, before)
                    return said
    except FileNotFoundError:
        raise textfile.not_found(path, context) from None
    except IsADirectoryError:
        raise textfile.is_directory(path) from None
    except OSError as fault:
        raise ToolFailed(f"{path} was not changed: {fault.strerror}", "write_failed") from None
    raise ToolFailed(f"{path} keeps changing; nothing was written, read it again", "changed_meanwhile")


def _content(place: paths.Place, context: ToolContext) -> tuple[bytes, os.stat_result]:
    if paths.existing(place, context) is None:
        raise FileNotFoundError(place.shown)
    with FileIO(paths.open_regular(place, context)) as file:
        found = os.fstat(file.fileno())
        content = b""
        if found.st_size <= MAX_FILE_BYTES:
            content = file.read(MAX_FILE_BYTES + 1) or b""
    if max(found.st_size, len(content)) > MAX_FILE_BYTES:
        raise _too_big(place.shown)
    if textfile.looks_binary(content):
        raise textfile.binary(place.shown)
    return content, found


def _too_big(path: str) -> ToolFailed:
    return ToolFailed(
        f"{path} has, or would have, more than {MAX_FILE_BYTES} bytes; use a command", "too_big"
    )


def replaced(arguments: EditFileInput, content: bytes) -> tuple[bytes, str]:
    """The new content and what to say of it, from bytes alone: what is not touched stays as it is."""
    path, old, new = arguments.path, arguments.old.encode(), arguments.new.encode()
    if _has_only_crlf(content):  # as read_file shows them, lines have no endings: a model writes LF
        old, new = _crlf(old), _crlf(new)
    if old == new:
        raise ToolFailed(f"old and new are the same for {path}; nothing was changed", "no_change")
    places = _places(old, content)
    if not places:
        raise _not_there(path, old, new, content)
    if old in new and (done := _places(new, content)) and _all_inside(places, old, done, new):
        raise ToolFailed(
            f"{path} has new already, {_lines(done, content)}, and old only as a part of it: this edit seems to be "
            "made. Nothing was changed; to add it once more, give more of the text around as old",
            "already_there",
        )
    if len(places) > 1 and not arguments.replace_all:
        times = len(places) if len(places) < MAX_PLACES else f"at least {MAX_PLACES}"
        raise ToolFailed(
            f"old occurs {times} times in {path}, {_lines(places, content)}; give more of the text around "
            "it, or set replace_all",
            "ambiguous",
        )
    count = content.count(old)
    if len(content) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
        raise _too_big(path)
    what = "1 occurrence" if count == 1 else f"{count} occurrences"
    changed = content.replace(old, new)
    return changed, f"Replaced {what} in {path}, {_lines(places, content)} ({len(changed)} bytes now)"


def _has_only_crlf(content: bytes) -> bool:
    ends = content.count(b"\n")
    return ends > 0 and content.count(b"\r\n") == ends


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _places(wanted: bytes, content: bytes) -> list[int]:
    """Also those that overlap: `aa` is in `aaa` twice, and which one is meant is not clear."""
    places: list[int] = []
    at = content.find(wanted)
    while at >= 0 and len(places) < MAX_PLACES:
        places.append(at)
        at = content.find(wanted, at + 1)
    return places


def _all_inside(places: list[int], old: bytes, done: list[int], new: bytes) -> bool:
    """Whether every `old` lies within some `new`; both lists are sorted."""
    if len(places) == MAX_PLACES:
        return False
    following = iter(done)
    last = next(following)
    for at in places:
        while last + len(new) < at + len(old):
            if (further := next(following, None)) is None:
                return False
            last = further
        if last > at:
            return False
    return True


def _lines(places: list[int], content: bytes) -> str:
    numbers, line, seen = [], 1, 0
    for at in islice(places, SHOWN_LINES):
        line += content.count(b"\n", seen, at)
        seen = at
        numbers.append(str(line))
    more = len(places) - len(numbers)
    return f"line{'s' * (len(places) > 1)} {', '.join(numbers)}" + (f" and {more} more" if more else "")


def _not_there(path: str, old: bytes, new: bytes, content: bytes) -> ToolFailed:
    told = f"old is not in {path}; nothing was changed"
    if not content:
        return ToolFailed(f"{told}: the file is empty", "old_not_found")
    plain_old, plain = old.replace(b"\r\n", b"\n"), content.replace(b"\r\n", b"\n")
    if not _has_only_crlf(content) and (places := _places(plain_old, plain)):
        at = _lines(places, plain)
        ends = (
            "has both LF and CRLF line endings" if b"\r\n" in content else "has LF line endings, old has CRLF"
        )
        return ToolFailed(
            f"{told}. But for its line endings it is there, {at}: the file {ends}", "old_not_found"
        )
    if new.strip() and (places := _places(new, content)):
        told += f". new is there, {_lines(places, content)}: perhaps this edit was made before"
    return ToolFailed(f"{told}. {nearest(plain_old.decode(), plain)}", "old_not_found")
