"""The `grep` tool: lines that a regular expression finds, whatever the expression costs (T-11, X-12)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from roundturn.errors import ToolFailed
from roundturn.jsontext import clean_text
from roundturn.tool import (
    MAX_OUTPUT_BYTES,
    ArgumentKind,
    BaseTool,
    Effect,
    Permission,
    ToolContext,
    ToolResult,
)
from roundturn.tools import paths, searcher, textfile
from roundturn.tools.supervised import KEY
from roundturn.tools.threads import to_the_end
from roundturn.tools.walk import MAX_DEPTH, Opened, Walk, selects

MAX_PATTERN_CHARS = 1_000
MAX_SHOWN = 1_000
MAX_TIMEOUT_S = 60
DEFAULT_TIMEOUT_S = 20
MAX_FILE_BYTES = 10_000_000
TRAILER_BYTES = 4 * 1024
END_S = 10.0  # for the thread that reads a last file on a slow disk
_SEARCHER = (sys.executable, "-S", "-I", searcher.__file__)


class GrepInput(BaseModel, extra="forbid"):
    """What to look for and where."""

    pattern: str = Field(
        min_length=1,
        max_length=MAX_PATTERN_CHARS,
        description="Regular expression of Python, looked for in each line by itself.",
    )
    path: str = Field(
        ".", min_length=1, max_length=4096, description="Directory or file, relative to the action directory."
    )
    glob: str = Field(
        "",
        max_length=200,
        description="Only files with names like this, with * and ? (*.py); with a slash, paths (src/*.py).",
    )
    ignore_case: bool = Field(False, description="Capital and small letters are the same.")
    limit: int = Field(100, ge=1, le=MAX_SHOWN, description="How many lines at most.")
    timeout_s: int = Field(DEFAULT_TIMEOUT_S, ge=1, le=MAX_TIMEOUT_S, description="Seconds it may take.")


class Grep(BaseTool):
    """Not brief: how long it takes depends on the files and the pattern."""

    name = "grep"
    description = (
        "Find lines by a regular expression in the UTF-8 text files below a directory of the action directory. "
        "Answers path:line: text. Binary files and those of more than 10 MB are left out and counted; links are "
        "not followed."
    )
    input_model = GrepInput
    effect = Effect.PURE
    limit_s = MAX_TIMEOUT_S + END_S
    category = "files"
    permission = Permission.READ
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"path": "path"}

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Raises `ToolFailed`: `path_refused`, `not_found`, `bad_pattern`, `not_started`."""
        search = Search(arguments, context)
        work = asyncio.ensure_future(asyncio.to_thread(search.run))
        try:
            done, _ = await asyncio.wait({work}, timeout=arguments.timeout_s)
        finally:
            search.end()
            with suppress(ToolFailed):
                await to_the_end(work)  # soon: nothing answers it any more
        work.result()
        return search.result(timed_out=not done)


class Ended(Exception):  # noqa: N818 - what happened
    """The searcher is gone, by our hand or by itself."""


@dataclass
class Found:
    """What may be shown, and what was passed by."""

    lines: list[str] = field(default_factory=list)
    room: int = MAX_OUTPUT_BYTES - TRAILER_BYTES
    files: int = 0
    binary: int = 0
    too_big: int = 0
    unusable: int = 0
    at: str = ""
    full: bool = False
    ended: bool = False

    def add(self, name: str, number: int, text: str) -> None:
        line = f"{name}:{number}: {clean_text(text)}\n"
        self.room -= len(line.encode())
        if self.room < 0:
            self.full = True
        else:
            self.lines.append(line)


class Search:
    """One searcher and the walk that feeds it. `run` is for a thread; `end` stops it from any other."""

    def __init__(self, arguments: GrepInput, context: ToolContext) -> None:
        self._arguments = arguments
        self._context = context
        self._stopped = threading.Event()
        self._found = Found()
        self._walk = Walk(arguments.path, context, MAX_DEPTH, arguments.timeout_s, self._stopped)
        try:
            self._process = subprocess.Popen(
                [*_SEARCHER, str(arguments.timeout_s + 1)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={KEY: context.idempotency_key},
                start_new_session=True,
            )
        except OSError as fault:
            raise ToolFailed(f"The search was not started: {fault.strerror}", "not_started") from fault

    def end(self) -> None:
        self._stopped.set()
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def run(self) -> None:
        try:
            self._compile()
            for name, content in self._contents():
                self._found.at = name
                self._look(name, content)
                if self._found.full:
                    break
        except Ended:
            self._found.ended = True
        finally:
            self.end()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(BrokenPipeError):
                    assert pipe is not None
                    pipe.close()
            self._process.wait()

    def _compile(self) -> None:
        pattern = [self._arguments.pattern, self._arguments.ignore_case]
        fault = self._ask(json.dumps(pattern).encode() + b"\n")
        if isinstance(fault, str):
            raise ToolFailed(f"The pattern is no regular expression: {fault}", "bad_pattern")

    def _look(self, name: str, content: bytes) -> None:
        found = self._found
        allowance = self._arguments.limit - len(found.lines)
        lines = self._ask(b"%d %d\n" % (len(content), allowance), content)
        found.files += 1
        for number, text in lines:
            found.add(name, number, text)
        found.full = found.full or len(found.lines) >= self._arguments.limit

    def _ask(self, head: bytes, body: bytes = b"") -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(head)
            self._process.stdin.write(body)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Ended from None
        answer = self._process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise Ended
        return json.loads(answer)

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """What may be searched, by the names that are shown."""
        for name, descriptor in self._files():
            try:
                with FileIO(descriptor) as file:
                    size = os.fstat(descriptor).st_size
                    content = b"" if size > MAX_FILE_BYTES else file.read(MAX_FILE_BYTES + 1) or b""
            except OSError:  # a disk that fails
                self._found.unusable += 1
                continue
            sample = content[: textfile.SAMPLE_BYTES]
            if max(size, len(content)) > MAX_FILE_BYTES:
                self._found.too_big += 1
            elif textfile.looks_binary(sample):
                self._found.binary += 1
            else:
                yield name, content

    def _files(self) -> Iterator[tuple[str, int]]:
        path = self._arguments.path
        try:
            try:
                yield paths.shown(path), paths.open_confined(path, self._context)
            except IsADirectoryError:
                with closing(self._walk.directories()) as directories:
                    for opened in directories:
                        yield from self._in(opened)
        except FileNotFoundError:
            raise textfile.not_found(path, self._context, "file or directory") from None

    def _in(self, opened: Opened) -> Iterator[tuple[str, int]]:
        above = paths.parts_of(self._arguments.path, self._context)
        for entry in opened.entries:
            if entry.kind != "file" or not selects(self._arguments.glob, entry):
                continue
            if self._stopped.is_set():
                return
            name = paths.shown("/".join((*above, *entry.parts)))
            try:
                place = paths.Place(opened.descriptor, entry.parts[-1], name)
                descriptor = paths.open_regular(place, self._context)
            except (ToolFailed, FileNotFoundError, IsADirectoryError):  # it is not what it was
                self._found.unusable += 1
                continue
            yield name, descriptor

    def result(self, timed_out: bool) -> ToolResult:
        found = self._found
        broken = found.ended and not timed_out
        notes = {
            f"... timed out after {self._arguments.timeout_s} s at {found.at or 'the pattern'}: the search is not "
            "complete; look in less, or for something simpler": timed_out,
            f"... the search broke off at {found.at or 'the pattern'}, perhaps for want of memory": broken,
            f"... perhaps more: {len(found.lines)} lines fit; look in less": found.full,
            f"... {found.binary} binary files left out": found.binary > 0,
            f"... {found.too_big} files of more than {MAX_FILE_BYTES} bytes left out": found.too_big > 0,
            f"... {found.unusable} files could not be read or changed meanwhile": found.unusable > 0,
        }
        said = [note for note, holds in notes.items() if holds]
        if not timed_out:
            said += self._walk.omissions()
        lines = found.lines or [f"(no such line in {found.files} files)\n"]
        return ToolResult(
            output="".join((*lines, *(f"{note}\n" for note in said))), is_error=timed_out or broken
        )
