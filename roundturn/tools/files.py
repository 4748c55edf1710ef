"""Reading and writing text files in the action directory, bounded and atomic (T-11, X-12)."""

import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader, FileIO
from typing import Any, BinaryIO, ClassVar

from pydantic import BaseModel, Field, field_validator

from roundturn.errors import ToolFailed
from roundturn.jsontext import clean_text, whole_words
from roundturn.tool import (
    MAX_OUTPUT_BYTES,
    ArgumentKind,
    BaseTool,
    Effect,
    Permission,
    ToolContext,
    ToolResult,
)
from roundturn.tools import paths, replacement, textfile
from roundturn.tools.threads import changing, reading

MAX_LINES = 2_000
MAX_LINE_CHARS = 2_000
MAX_CONTENT_BYTES = 1_000_000
COUNT_BYTES = 10_000_000  # beyond this the rest is not counted: a brief tool ends within a second
CHUNK_BYTES = 256 * 1024
LINE_BYTES = MAX_LINE_CHARS * 4  # what so many characters of UTF-8 take at most
CUT = " [... line cut]"
TRAILER_BYTES = 100


class ReadFileInput(BaseModel, extra="forbid"):
    """Which lines of which file."""

    path: str = Field(min_length=1, max_length=4096, description="File, relative to the action directory.")
    offset: int = Field(1, ge=1, description="First line to read, counted from 1.")
    limit: int = Field(200, ge=1, le=MAX_LINES, description="How many lines at most.")


class WriteFileInput(BaseModel, extra="forbid"):
    """The whole new content of one file."""

    path: str = Field(min_length=1, max_length=4096, description="File, relative to the action directory.")
    content: str = Field(max_length=MAX_CONTENT_BYTES, description="The whole new content, at most 1 MB.")

    @field_validator("content")
    @classmethod
    def fits(cls, content: str) -> str:
        if len(content.encode()) > MAX_CONTENT_BYTES:
            raise ValueError(f"content has more than {MAX_CONTENT_BYTES} bytes; write it in parts")
        return content


class ReadFile(BaseTool):
    """Shows numbered lines of a text file."""

    name = "read_file"
    description = (
        "Read lines of a UTF-8 text file in the action directory. Lines are numbered from 1; "
        "binary files are refused. The answer says how to go on when there is more."
    )
    input_model = ReadFileInput
    effect = Effect.PURE
    brief = True
    category = "files"
    permission = Permission.READ
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"path": "path"}

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed`: `path_refused`, `not_found`, `is_directory`, `binary_file`, `past_end`."""
        return ToolResult(output=await reading(partial(_read, arguments, context)))


class WriteFile(BaseTool):
    """Creates or replaces a file. Runs *at least once*: the same content again changes nothing."""

    name = "write_file"
    description = (
        "Create a file in the action directory, or replace its whole content. Missing directories are made; "
        "readers see the old or the new content, never a part."
    )
    input_model = WriteFileInput
    effect = Effect.KEYED
    limit_s = 30.0
    category = "files"
    permission = Permission.WRITE
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"path": "path"}

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed`: `path_refused`, `is_directory`, `busy`, `write_failed`."""
        return ToolResult(output=await changing(partial(_write, arguments, context)))


def _read(arguments: ReadFileInput, context: ToolContext, stopped: threading.Event) -> str:
    try:
        opened = paths.open_confined(arguments.path, context)
    except FileNotFoundError:
        raise textfile.not_found(arguments.path, context) from None
    except IsADirectoryError:
        raise textfile.is_directory(arguments.path) from None
    with BufferedReader(FileIO(opened), CHUNK_BYTES) as file:
        sample = file.peek(textfile.SAMPLE_BYTES)[: textfile.SAMPLE_BYTES]
        if textfile.looks_binary(sample):
            raise textfile.binary(arguments.path)
        return _slice(file, arguments, stopped)


@dataclass
class _Shown:
    """The numbered lines so far, never more than an output may have."""

    room: int = MAX_OUTPUT_BYTES - TRAILER_BYTES
    lines: list[str] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)

    def add(self, number: int, raw: bytes, whole: bool) -> bool:
        """False when this line does not fit any more."""
        text = clean_text(raw.decode(errors="replace")).removesuffix("\n").removesuffix("\r")
        if len(text) > MAX_LINE_CHARS or not whole:
            text = whole_words(text[:MAX_LINE_CHARS]) + CUT
        line = f"{number:6d}\t{text}\n"
        size = len(line.encode())
        if size > self.room:
            return False
        self.room -= size
        self.lines.append(line)
        self.raw += raw
        return True


def _slice(file: BinaryIO, arguments: ReadFileInput, stopped: threading.Event) -> str:
    """Streams: the memory does not depend on the size of the file or of a line."""
    number, shown, more = 0, _Shown(), ""
    while not stopped.is_set() and (raw := file.readline(LINE_BYTES)):
        number += 1
        whole = raw.endswith(b"\n") or not _skip_line(file, stopped)
        if number < arguments.offset:
            continue
        if len(shown.lines) == arguments.limit or not shown.add(number, raw, whole):
            more = _more(file, number, stopped)
            break
    if number < arguments.offset and (number or arguments.offset > 1):
        raise ToolFailed(f"{arguments.path} has {number} lines; use a smaller offset", "past_end")
    # Text may be followed by an archive; but in a slice of one line a stray byte is a large share.
    if textfile.is_binary(bytes(shown.raw), textfile.SPARED):
        raise textfile.binary(arguments.path)
    return "".join(shown.lines) + more or "(the file is empty)"


def _skip_line(file: BinaryIO, stopped: threading.Event) -> bool:
    """Reads on to the end of a long line; whether there was anything before it."""
    skipped = False
    while not stopped.is_set() and (raw := file.readline(CHUNK_BYTES)):
        skipped = skipped or raw != b"\n"
        if raw.endswith(b"\n"):
            break
    return skipped


def _more(file: BinaryIO, first_left: int, stopped: threading.Event) -> str:
    left, counted, last = 1, 0, b"\n"
    while counted < COUNT_BYTES and not stopped.is_set() and (chunk := file.read(CHUNK_BYTES)):
        counted += len(chunk)
        left += chunk.count(b"\n")
        last = chunk[-1:]
    left += last != b"\n"
    at_least = "at least " if counted >= COUNT_BYTES else ""
    return f"... {at_least}{left} more lines; use offset={first_left}\n"


def _write(arguments: WriteFileInput, context: ToolContext, stopped: threading.Event) -> str:
    content = arguments.content.encode()
    try:
        with paths.confined_place(arguments.path, context, create=True) as place:
            before = paths.existing(place, context)
            if before is not None and stat.S_ISDIR(before.st_mode):
                raise textfile.is_directory(arguments.path)
            with replacement.alone(place, stopped):
                if stopped.is_set():
                    raise ToolFailed(f"{arguments.path} was not written: the call was cancelled", "cancelled")
                replacement.replace(place, content, before)
    except OSError as fault:
        raise ToolFailed(f"{arguments.path} was not written: {fault.strerror}", "write_failed") from None
    return f"{'Created' if before is None else 'Replaced'} {arguments.path} ({len(content)} bytes)"
