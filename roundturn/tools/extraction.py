"""The worker's side of reading one page: starts the process that reads it, and ends it whatever happens."""

import asyncio
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from roundturn.errors import ToolFailed
from roundturn.jsontext import clean_text
from roundturn.tools import extractor
from roundturn.tools.download import Page
from roundturn.tools.threads import to_the_end

EXTRACT_S = 20.0  # by the clock; of processor time it has `extractor.CPU_S`
MAX_ANSWER_BYTES = 512 * 1024  # JSON spells a character with 12 bytes at most
CHUNK_BYTES = 64 * 1024
READER = (sys.executable, "-I", "-W", "ignore", extractor.__file__)


class Reading(BaseModel, frozen=True):
    """`text` goes from the character that was asked for to `next`, of `total`."""

    title: str = ""
    text: str = ""
    total: int = 0
    next: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Part:
    """Where to begin, in characters of the readable text, and how many bytes of it to show."""

    offset: int
    room: int


async def read(page: Page, part: Part) -> Reading:
    """Raises `ToolFailed` of kind `content_refused` or `unreadable`."""
    kind = "html" if page.is_html else "text"
    answer = await _ask([kind, page.charset[:40], page.url, str(part.offset), str(part.room)], page.body)
    try:
        reading = Reading.model_validate_json(answer)
    except ValidationError:
        why = "reading it takes more time or memory than a page should"
        raise ToolFailed(f"Not read: {why} ({len(page.body)} bytes)", "unreadable") from None
    if reading.fault:
        raise ToolFailed(f"Not read: {reading.fault}, no text ({len(page.body)} bytes)", "content_refused")
    return reading.model_copy(update={"title": clean_text(reading.title), "text": clean_text(reading.text)})


async def _ask(arguments: list[str], body: bytes) -> bytes:
    """What the process said, as far as it came."""
    process = _start(arguments, body)
    try:
        async with asyncio.timeout(EXTRACT_S):
            return await _all_of(process)
    except TimeoutError:
        return b""
    finally:
        await to_the_end(asyncio.to_thread(_end, process))


def _start(arguments: list[str], body: bytes) -> subprocess.Popen[bytes]:
    """Not by the event loop: one that is cancelled while it starts a process loses it.

    The page is a file, so that nobody waits for who reads it.
    """
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.seek(0)
        return subprocess.Popen(
            [*READER, *arguments],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # a Ctrl-C at the worker's terminal is not for it
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


async def _all_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    loop, pipe, said, ended = (
        asyncio.get_running_loop(),
        process.stdout.fileno(),
        bytearray(),
        asyncio.Event(),
    )

    def take() -> None:
        said.extend(piece := os.read(pipe, CHUNK_BYTES))
        if not piece or len(said) > MAX_ANSWER_BYTES:
            loop.remove_reader(pipe)
            ended.set()

    loop.add_reader(pipe, take)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pipe)
    return bytes(said)
