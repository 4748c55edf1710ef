"""A walk over directories that a model named: confined, never through links, bounded in entries and time (X-12)."""

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Literal

from roundturn.errors import ToolFailed
from roundturn.glob import first_match
from roundturn.tool import ToolContext
from roundturn.tools import paths

MAX_ENTRIES = 200_000  # looked at in one walk; their names take some 20 MB
MAX_DEPTH = 64

Kind = Literal["file", "dir", "link", "other"]  # other: device, pipe, socket


@dataclass(frozen=True)
class Entry:
    """`parts` below the directory where the walk began."""

    parts: tuple[str, ...]
    kind: Kind

    @property
    def path(self) -> str:
        return "/".join(self.parts)


@dataclass(frozen=True)
class Opened:
    """One directory of the walk: its descriptor, open until the next one, and what it holds, by name."""

    descriptor: int
    entries: list[Entry]


@dataclass
class Walk:
    """`depth`: levels of directories. What was left out, and why, is counted here."""

    path: str
    context: ToolContext
    depth: int
    limit_s: float
    stopped: threading.Event
    seen: int = 0
    protected: int = 0
    vanished: int = 0
    too_deep: int = 0
    unreadable: list[str] = field(default_factory=list)
    cut: str = ""

    def directories(self) -> Generator[Opened, None, None]:
        """Level by level, each level by name: what is near the beginning is not lost to what is deep.

        Raises `ToolFailed` (`path_refused`) and `FileNotFoundError` for the directory where it begins, and for no other.
        """
        begin = paths.parts_of(self.path, self.context)
        protected = paths.Protected(self.context)
        deadline = time.monotonic() + self.limit_s
        pending: deque[tuple[str, ...]] = deque([()])
        with paths.action_directory(self.path, self.context) as base:
            while pending and not self.cut:
                parts = pending.popleft()
                try:
                    with paths.descended(base, begin + parts, self.path, protected) as descriptor:
                        entries = self._entries(descriptor, begin, parts, protected, deadline)
                        inner = [entry.parts for entry in entries if entry.kind == "dir"]
                        if len(parts) + 1 < self.depth:
                            pending.extend(inner)
                        elif self.depth == MAX_DEPTH:
                            self.too_deep += len(inner)
                        yield Opened(descriptor, entries)
                except FileNotFoundError:
                    if not parts:
                        raise
                    self.vanished += 1
                except ToolFailed:  # it became a link, or may not be read
                    if not parts:
                        raise
                    self.unreadable.append("/".join(parts))

    def _entries(
        self,
        descriptor: int,
        begin: tuple[str, ...],
        parts: tuple[str, ...],
        protected: paths.Protected,
        deadline: float,
    ) -> list[Entry]:
        found = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if self._is_over(deadline):
                    break
                self.seen += 1
                try:
                    kind = _kind(entry)
                    here = entry.stat(follow_symlinks=False) if kind == "dir" else None
                except OSError:
                    self.vanished += 1
                    continue
                below = (*parts, entry.name)
                if protected.names(begin + below) or (here is not None and protected.has(here)):
                    self.protected += 1
                else:
                    found.append(Entry(below, kind))
        return sorted(found, key=lambda entry: entry.parts)

    def _is_over(self, deadline: float) -> bool:
        if self.stopped.is_set():
            self.cut = "it was stopped"
        elif self.seen >= MAX_ENTRIES:
            self.cut = f"it ended after {MAX_ENTRIES} entries"
        elif time.monotonic() > deadline:
            self.cut = f"it ended after {self.limit_s:g} s"
        return bool(self.cut)

    def omissions(self) -> list[str]:
        """A line for each reason why something is not there; none when nothing was left out."""
        told = {
            f"not complete: {self.cut}; name a directory further down": bool(self.cut),
            f"{self.protected} protected, not shown": bool(self.protected),
            f"{self.vanished} vanished meanwhile": bool(self.vanished),
            f"{self.too_deep} directories deeper than {MAX_DEPTH} levels, not entered": bool(self.too_deep),
            f"{len(self.unreadable)} could not be entered, such as "
            f"{paths.shown(self.unreadable[0])[:200] if self.unreadable else ''}": bool(self.unreadable),
        }
        return [f"... {line}" for line, holds in told.items() if holds]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "dir"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def size_of(opened: Opened, name: str) -> int | None:
    """In bytes; None for what is no regular file or is gone."""
    try:
        found = os.stat(name, dir_fd=opened.descriptor, follow_symlinks=False)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def selects(glob: str, entry: Entry) -> bool:
    """A glob without a slash is for the name, one with is for the path below the beginning; `**/` may be nothing."""
    if not glob:
        return True
    subject = entry.path if "/" in glob else entry.parts[-1]
    return first_match((glob, glob.replace("**/", "")), subject) is not None
