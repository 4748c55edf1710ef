"""What `dev` and `demo` say on the screen, plain when nobody watches."""

import asyncio
import json
import os
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from gateway.cli.region import Region, painted
from gateway.cli.screen import columns_of
from gateway.cli.text import row_of
from gateway.color import ColorChoice, colored, moves
from roundturn.errors import RoundturnError
from roundturn.settings import Settings
from roundturn.stores import open_store

LOOK_S = 0.5
SHOWN_APPROVALS = 100
GREEN, YELLOW, RED, DIM, BOLD = "32", "33", "31", "2", "1"
WORTH_TELLING = ("warning", "error", "critical")
NOT_REPEATED = ("event", "level", "timestamp", "process", "exception")


class Talk:
    """Whole lines, at once; a screen that is gone is no reason to fail."""

    def __init__(self, stream: TextIO, name: str = "dev", color: ColorChoice = "auto") -> None:
        self.started = datetime.now(UTC)
        self._stream = stream
        self._name = name
        self._colored = colored(stream, color)
        self.moves = moves(stream)
        self.region = Region(self._put, self.columns, lambda text: painted(text, self._colored))

    def columns(self) -> int:
        return columns_of(self._stream)

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def line(self, text: str = "") -> None:
        self.region.above(f"{text}\n")

    def paragraph(self, text: str, lead: str, indent: str) -> None:
        """Whole words on a terminal, one line elsewhere; `lead` takes as much room as `indent`."""
        room = max(20, self.columns() - 1 - len(indent))
        lines = textwrap.wrap(text, room, break_on_hyphens=False) if self.moves else [text]
        for number, line in enumerate(lines or [""]):
            self.line(f"{indent if number else lead}{line}")

    def check(self, name: str, text: str, took_s: float | None = None) -> None:
        took = "" if took_s is None else self.paint(f"   {took_s:.1f} s", DIM)
        self.line(f"  {self.paint('✓', GREEN)} {name:<11} {text}{took}")

    def warn(self, text: str) -> None:
        self.line(f"  {self.paint('!', YELLOW)} {text}")

    def event(self, text: str, source: str = "") -> None:
        self.line(
            f"{self.paint(f'{datetime.now().astimezone():%H:%M:%S}', DIM)} {source or self._name:<8} {text}"
        )

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colored else text


async def notable(settings: Settings, logs: Mapping[str, Path], talk: Talk, verbose: bool) -> None:
    """Tells, until it is cancelled, of requests to people and of what the logs have; of all of that if `verbose`."""
    async with open_store(settings.store_url, settings.home / "blobs", LOOK_S) as store:
        read = {name: path.stat().st_size for name, path in logs.items()}
        told: set[str] = set()
        while True:
            for name, path in logs.items():
                lines, read[name] = new_lines(path, read[name])
                for text in lines:
                    if shown := _worth_telling(text, name, verbose):
                        talk.event(shown, name)
            with suppress(RoundturnError):  # a store that is busy is asked again
                for row in await store.approvals.page(["pending"], None, SHOWN_APPROVALS):
                    if row.id not in told:
                        talk.event(
                            f"▲ waits for a person: {row_of(row.tool)} · roundturn approvals show {row.id}"
                        )
                        told.add(row.id)
            await asyncio.sleep(LOOK_S)


def new_lines(path: Path, position: int) -> tuple[list[str], int]:
    """The whole lines after `position`, and where they end; from the beginning when the file has become smaller."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            position = position if position <= size else 0
            file.seek(position)
            whole, newline, _ = file.read().rpartition(b"\n")
    except OSError:
        return [], position
    return whole.decode(errors="replace").splitlines(), position + len(whole) + len(newline)


def _worth_telling(text: str, name: str, verbose: bool) -> str:
    """The line as people read it, empty when it is not for them."""
    try:
        found: dict[str, Any] = json.loads(text)
        rest = " ".join(f"{key}={value}" for key, value in found.items() if key not in NOT_REPEATED)
        shown, matters = f"{found['event']} {rest}", found["level"] in WORTH_TELLING
    except (ValueError, KeyError, TypeError):
        # Temporal's warnings are many and about itself; a worker that prints has something to say.
        shown, matters = text, name == "worker" and not text.startswith("---")
    if not (verbose or matters):
        return ""
    return "".join(character if character.isprintable() else " " for character in shown)[:300]
