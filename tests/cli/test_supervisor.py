"""Children are real processes here: they die, hang, refuse to stop and lose their parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.dev import supervisor as supervision
from gateway.dev.supervisor import Child, Log, Part, Supervisor, supervised
from tests.requirements import requirement
from tests.waiting import until

SLEEPS = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
PARENT = """
import asyncio, sys
from pathlib import Path
from gateway.dev.supervisor import Part, Supervisor, supervised

async def ready(pid):
    while "here" not in (logs / "child.log").read_text():
        await asyncio.sleep(0.02)

async def work(supervisor):
    child = supervisor.start(Part("child", [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"], ready))
    await child.up.wait()
    print(child.pid, flush=True)
    await asyncio.Event().wait()

async def main():
    supervisor = Supervisor(logs, lambda text: None)
    await supervised(supervisor, work(supervisor))

logs = Path(sys.argv[1])
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    """A process that has ended and was not collected yet is not alive."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def at_once(_pid: int) -> None:
    return


async def never(_pid: int) -> None:
    await asyncio.Event().wait()


def part(code: str, ready: Callable[[int], Awaitable[None]] = at_once, stop_s: float = 5) -> Part:
    return Part("child", [sys.executable, "-S", "-c", code], ready, stop_s=stop_s)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def supervisor(tmp_path: Path, said: list[str]) -> AsyncIterator[Supervisor]:
    made = Supervisor(tmp_path / "logs", said.append)
    yield made
    made.kill()
    await made.stop()


def has_said(child: Child, word: str) -> Callable[[], bool]:
    return lambda: any(word in line for line in child.log.since_start())


async def test_a_child_that_was_killed_is_started_again(supervisor: Supervisor, said: list[str]) -> None:
    child = supervisor.start(part(SLEEPS))
    await child.up.wait()
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid != first and child.up.is_set())
    assert not alive(first)
    assert said[0] == f"child (pid {first}) was killed by SIGKILL; it starts again"
    assert said[1].startswith(f"child is back (pid {child.pid})")


async def test_a_child_is_up_only_when_it_works(supervisor: Supervisor) -> None:
    opened = asyncio.Event()

    async def ready(_pid: int) -> None:
        await opened.wait()

    child = supervisor.start(part("import time; print('running', flush=True); time.sleep(600)", ready))
    await until(has_said(child, "running"))
    assert not child.up.is_set()
    opened.set()
    await asyncio.wait_for(child.up.wait(), 5)


async def test_a_child_waits_for_those_that_it_needs(supervisor: Supervisor) -> None:
    opened = asyncio.Event()

    async def ready(_pid: int) -> None:
        await opened.wait()

    first = supervisor.start(part(SLEEPS, ready))
    second = supervisor.start(Part("second", part(SLEEPS).argv, at_once), [first])
    await until(lambda: first.pid is not None)
    assert second.pid is None
    opened.set()
    await asyncio.wait_for(second.up.wait(), 5)


async def test_five_deaths_in_a_short_time_are_enough(tmp_path: Path, said: list[str]) -> None:
    supervisor = Supervisor(tmp_path, said.append)

    async def work() -> int:
        child = supervisor.start(part("import os; print('I fall', flush=True); os.kill(os.getpid(), 9)"))
        await child.up.wait()
        await asyncio.Event().wait()
        return 0

    began = time.monotonic()
    ended = await supervised(supervisor, work())
    assert time.monotonic() - began < supervision.WINDOW_S
    assert (ended.why, ended.code) == ("failed", 1)
    assert ended.told == "child was killed by SIGKILL and is given up: I fall"
    assert sum("it starts again" in line for line in said) == supervision.DEATHS - 1


async def test_what_refuses_to_start_is_not_asked_again(tmp_path: Path, said: list[str]) -> None:
    supervisor = Supervisor(tmp_path, said.append)

    async def work() -> int:
        supervisor.start(part("import sys; sys.exit('the port is taken')", never))
        await asyncio.Event().wait()
        return 0

    ended = await supervised(supervisor, work())
    assert ended.told == "child ended with code 1 and is given up: the port is taken"
    assert not any("again" in line for line in said)


@pytest.mark.parametrize(("code", "ends"), [(2, 2), (7, 1)])
async def test_the_cause_stands_before_the_other_lines_and_2_is_handed_on(
    tmp_path: Path, said: list[str], code: int, ends: int
) -> None:
    supervisor = Supervisor(tmp_path, said.append)
    (tmp_path / "child.log").write_text("--- start at 2026-01-01T00:00:00Z\nof yesterday\n")

    async def work() -> int:
        words = r"it begins\nerror: no such tool\n  rename it"
        supervisor.start(part(f"import sys; print('{words}'); sys.exit({code})", never))
        await asyncio.Event().wait()
        return 0

    ended = await supervised(supervisor, work())
    assert (ended.why, ended.code) == ("failed", ends)
    assert ended.told.splitlines() == [
        f"child ended with code {code} and is given up: no such tool",
        "  rename it",
        f"Its lines before that ({tmp_path / 'child.log'}):",
        "  | it begins",
    ]


async def test_a_child_that_is_deaf_to_sigterm_is_killed_after_its_limit(supervisor: Supervisor) -> None:
    child = supervisor.start(part(STUBBORN, stop_s=0.2))
    await until(has_said(child, "deaf"))
    await asyncio.wait_for(supervisor.stop(), 5)
    assert child.pid is not None
    assert not alive(child.pid)


async def test_the_last_to_start_is_the_first_to_stop(supervisor: Supervisor, said: list[str]) -> None:
    for name in ("first", "second"):
        child = supervisor.start(Part(name, part(SLEEPS).argv, at_once))
        await child.up.wait()
    await supervisor.stop()
    assert [line.split()[0] for line in said] == ["second", "first"]


async def test_work_that_ends_takes_its_children_with_it(tmp_path: Path, said: list[str]) -> None:
    supervisor = Supervisor(tmp_path, said.append)

    async def work() -> int:
        await supervisor.start(part(SLEEPS)).up.wait()
        return 3

    ended = await supervised(supervisor, work())
    assert (ended.why, ended.code) == ("done", 3)
    pid = supervisor.children["child"].pid
    assert pid is not None
    assert not alive(pid)


async def test_work_that_fails_takes_its_children_with_it(tmp_path: Path, said: list[str]) -> None:
    supervisor = Supervisor(tmp_path, said.append)

    async def work() -> int:
        await supervisor.start(part(SLEEPS)).up.wait()
        raise LookupError("a defect")

    with pytest.raises(LookupError, match="a defect"):
        await supervised(supervisor, work())
    pid = supervisor.children["child"].pid
    assert pid is not None
    assert not alive(pid)


@requirement("P124")
async def test_a_second_signal_kills_at_once(tmp_path: Path, said: list[str]) -> None:
    supervisor = Supervisor(tmp_path, said.append)
    child: Child | None = None

    async def work() -> int:
        nonlocal child
        child = supervisor.start(part(STUBBORN, stop_s=60))
        await until(has_said(child, "deaf"))
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return 0

    running = asyncio.create_task(supervised(supervisor, work()))
    await until(lambda: any("stopping" in line for line in said))
    assert not running.done()
    os.kill(os.getpid(), signal.SIGINT)
    ended = await asyncio.wait_for(running, 5)
    assert ended.why == "killed"
    assert child is not None
    assert child.pid is not None
    assert not alive(child.pid)


@requirement("P124")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_no_child_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(await asyncio.to_thread(parent.stdout.readline))
        assert alive(child)
        parent.kill()
    await until(lambda: not alive(child), limit_s=5)


async def test_a_child_does_not_hear_the_terminal(supervisor: Supervisor) -> None:
    child = supervisor.start(part(SLEEPS))
    await child.up.wait()
    assert child.pid is not None
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "LOG_BYTES", 100)
    log = Log(tmp_path / "child.log")
    opened = log.open()
    os.write(opened, b"old\n" * 100)
    log.keep_small()
    os.write(opened, b"new\n")
    os.close(opened)
    assert log.since_start() == ["new"]
    assert (tmp_path / "child.log.1").read_text().endswith("old\n")


def test_only_what_the_last_process_wrote_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "child.log")
    for text in (b"of yesterday\n", b"of today\n"):
        opened = log.open()
        os.write(opened, text)
        os.close(opened)
    assert log.since_start() == ["of today"]
