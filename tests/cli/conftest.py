"""Commands are real processes on the home of a real system."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.conftest import OpenSystem
from tests.system import System, until

ROUNDTURN = str(Path(sys.executable).parent / "roundturn")
LIMIT_S = 60
UNWANTED = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI", "LINES")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The error document; log lines may stand before it."""
        found: dict[str, str] = json.loads(self.err.splitlines()[-1])["error"]
        return found


class Started(Protocol):
    process: "subprocess.Popen[bytes]"


class Running:
    """A command that has not ended; its output goes to files, so that nothing blocks."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    async def says(self, text: str, where: str = "err") -> None:
        def said() -> bool:
            assert self.process.poll() is None or text in getattr(self, where), (self.out, self.err)
            return text in getattr(self, where)

        await until(said, f"{text!r} on {where}")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    async def ended(self) -> Done:
        await until(lambda: self.process.poll() is not None, "the command's end")
        return Done(self.process.returncode, self.out, self.err)


@dataclass
class CommandLine:
    """`roundturn` on one home; output and errors are not terminals."""

    environment: dict[str, str]
    folder: Path
    started: list[Started] = field(default_factory=list)

    def start(self, *arguments: str, stdin: bytes = b"", also: dict[str, str] | None = None) -> Running:
        """`also`: more of the environment."""
        number = len(self.started)
        out, err, given = (self.folder / f"{number}.{name}" for name in ("out", "err", "in"))
        given.write_bytes(stdin)
        with open(given, "rb") as in_, open(out, "wb") as out_, open(err, "wb") as err_:
            process = subprocess.Popen(
                [ROUNDTURN, *arguments], stdin=in_, stdout=out_, stderr=err_, start_new_session=True,
                env={**self.environment, **(also or {})}, cwd=self.folder,
            )  # fmt: skip
        running = Running(process, out, err)
        self.started.append(running)
        return running

    async def __call__(self, *arguments: str, stdin: bytes = b"", also: dict[str, str] | None = None) -> Done:
        return await self.start(*arguments, stdin=stdin, also=also).ended()

    def end(self) -> None:
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()


def _clean(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in UNWANTED}


Lines = Callable[[System], CommandLine]


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Lines]:
    """`line(system)`: its command line."""
    made: list[CommandLine] = []

    def make(system: System) -> CommandLine:
        folder = tmp_path / f"cli{len(made)}"
        folder.mkdir()
        made.append(CommandLine(_clean(system.environment), folder))
        return made[-1]

    yield make
    for one in made:
        await asyncio.to_thread(one.end)


@pytest.fixture
def alone(tmp_path: Path) -> CommandLine:
    """A command line on a home where nothing is."""
    bare = {
        name: value
        for name, value in _clean(dict(os.environ)).items()
        if not name.startswith(("ROUNDTURN_", "OPENAI_", "TEMPORAL_"))
    }
    return CommandLine({**bare, "ROUNDTURN_HOME": str(tmp_path / "home")}, tmp_path)


@dataclass
class Desk:
    """A system with its worker, and its command line."""

    system: System
    roundturn: CommandLine

    async def start(self, text: str) -> tuple[str, str]:
        """A session and its run."""
        session = await self.system.session()
        return session, await self.system.send(text, session)

    async def asked(self, text: str) -> Any:
        """The approval that a message leads to."""
        _, run = await self.start(text)
        return (await self.system.pending(run))[0]


class OpenDesk:
    def __init__(self, system: OpenSystem, line: Lines) -> None:
        self._system = system
        self._line = line

    async def __call__(self, *scenarios: dict[str, Any], worker: bool = True, **settings: Any) -> Desk:
        opened = await self._system(*scenarios, **settings)
        if worker:
            await opened.start_worker()
        return Desk(opened, self._line(opened))


@pytest.fixture
def desk(system: OpenSystem, line: Lines) -> OpenDesk:
    return OpenDesk(system, line)


@pytest.fixture
def broken_package(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH: a package is installed there whose tool is none."""
    folder = tmp_path / "packages"
    described = folder / "test_broken-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: test-broken\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[roundturn.tools]\nbroken = test_broken:Broken\n")
    (folder / "test_broken.py").write_text("class Broken:\n    pass\n")
    return folder
