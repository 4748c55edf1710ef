"""A confined command works as an unconfined one does: its output, its end, and the end of all its processes."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roundturn.sandbox import Command
from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.tool import ToolContext, ToolResult
from roundturn.tools.reaper import holders
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement
from tests.sandboxes.real import bubblewrap
from tests.waiting import until

GRACE_S = 3.0
MARGIN_S = 3.0  # for a busy machine


@pytest.fixture
def sandbox(tmp_path: Path) -> Bubblewrap:
    (tmp_path / "home").mkdir()
    (tmp_path / "action").mkdir()
    return bubblewrap(tmp_path / "home")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path / "action", f"call-{tmp_path.name}", (tmp_path / "home",))


async def bash(sandbox: Bubblewrap, context: ToolContext, command: str, timeout_s: int = 20) -> ToolResult:
    return await Bash(sandbox).execute(BashInput(command=command, timeout_s=timeout_s), context)


def running(context: ToolContext) -> list[int]:
    return holders(f"IDEMPOTENCY_KEY={context.idempotency_key}".encode())


@requirement("T-12")
def test_what_is_confined_need_not_always_ask(sandbox: Bubblewrap) -> None:
    assert Bash(sandbox).spec().approval != "always"


@requirement("T-12")
@pytest.mark.parametrize(
    ("command", "output", "is_error"),
    [
        ("echo a; echo b >&2; echo c >/dev/stderr; pwd", "a\nb\nc\n{cwd}\n", False),
        ('echo a >b; cat b; cd "$HOME"; cat b; mktemp >/dev/null && pwd', "a\na\n{cwd}\n", False),
        ("cat; wc -c; yes | head -1; echo ${PIPESTATUS[0]}", "0\ny\n141\n", False),
        ("exit 7", "(no output)\nexit code 7", True),
        ("printf x; exit 255", "x\nexit code 255", True),
        ("kill -9 $$", "(no output)\nexit code 137", True),
        ("kill -TERM $$", "(no output)\nexit code 143", True),
    ],
)
async def test_a_command_answers_as_without_a_sandbox(
    sandbox: Bubblewrap, context: ToolContext, command: str, output: str, is_error: bool
) -> None:
    expected = ToolResult(output=output.replace("{cwd}", str(context.cwd)), is_error=is_error)
    assert await bash(sandbox, context, command) == expected


@requirement("P27")
async def test_a_long_output_is_cut_in_the_middle_as_ever(sandbox: Bubblewrap, context: ToolContext) -> None:
    output = (await bash(sandbox, context, "echo first; yes | head -c 1000000; echo last")).output
    assert output.startswith("first\n")
    assert output.endswith("last\n")
    assert "the middle is cut" in output


@requirement("P132")
async def test_a_command_sees_no_variable_of_the_worker(
    sandbox: Bubblewrap, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    monkeypatch.setenv("TMPDIR", str(context.cwd.parent))
    assert "hidden" not in (await bash(sandbox, context, "env; cat /proc/*/environ")).output
    assert (await bash(sandbox, context, "echo $TMPDIR")).output == "/tmp\n"


@requirement("P25")
async def test_a_command_that_is_ended_has_its_grace_to_clean_up(
    sandbox: Bubblewrap, context: ToolContext
) -> None:
    command = "trap 'sleep 0.5; echo cleaned; exit 0' TERM; while :; do sleep 0.1; done"
    result = await bash(sandbox, context, command, timeout_s=1)
    assert "cleaned\ntimed out after 1 s" in result.output


@requirement("P25")
async def test_a_crowd_of_stubborn_processes_ends_with_the_call(
    sandbox: Bubblewrap, context: ToolContext
) -> None:
    crowd = 'trap "" TERM; for n in $(seq 100); do setsid env -i sleep 300 & done; touch all; wait'
    started = time.monotonic()
    call = asyncio.create_task(bash(sandbox, context, crowd, timeout_s=20))
    await until((context.cwd / "all").exists)
    inside = _inside(context)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < 20
    assert running(context) == []
    assert len(inside) > 100
    await until(lambda: not any(_alive(pid) for pid in inside), limit_s=MARGIN_S)


@requirement("P25")
async def test_commands_side_by_side_do_not_hold_each_other(
    sandbox: Bubblewrap, context: ToolContext
) -> None:
    slow = asyncio.create_task(bash(sandbox, context, "touch slow; sleep 300"))
    await until((context.cwd / "slow").exists)
    quick = await asyncio.gather(*(bash(sandbox, context, "echo x") for _ in range(5)))
    assert [result.output for result in quick] == ["x\n"] * 5
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert running(context) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.tool import ToolContext
from roundturn.tools.shell import Bash, BashInput
action, home, program = map(Path, sys.argv[1:4])
context = ToolContext(action, sys.argv[4], (home,))
asyncio.run(Bash(Bubblewrap(program, home)).execute(BashInput(command=sys.argv[5]), context))
"""


@requirement("P25")
async def test_a_confined_command_ends_when_its_worker_is_killed(
    sandbox: Bubblewrap, context: ToolContext, tmp_path: Path
) -> None:
    words = (str(context.cwd), str(tmp_path / "home"), "/usr/bin/bwrap", context.idempotency_key)
    command = 'trap "" TERM; (trap "" TERM; sleep 300)& setsid env -i sleep 300 & touch up; sleep 300'
    worker = subprocess.Popen([sys.executable, "-c", WORKER, *words, command])
    try:
        await until((context.cwd / "up").exists)
        inside = _inside(context)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert len(inside) >= 4
    await until(lambda: not any(_alive(pid) for pid in inside), limit_s=GRACE_S + MARGIN_S)
    await until(lambda: running(context) == [], limit_s=MARGIN_S)


@requirement("P25")
async def test_without_its_supervisor_a_confined_command_ends_too(
    sandbox: Bubblewrap, context: ToolContext
) -> None:
    call = asyncio.create_task(
        bash(sandbox, context, 'trap "" TERM; setsid env -i sleep 300 & touch up; wait')
    )
    await until((context.cwd / "up").exists)
    inside = _inside(context)
    supervisor = next(pid for pid in running(context) if b"reaper.py" in _words(pid))
    os.kill(supervisor, signal.SIGKILL)
    result = await call
    assert "supervisor was killed" in result.output
    await until(lambda: not any(_alive(pid) for pid in inside), limit_s=MARGIN_S)


@requirement("X-12")
async def test_a_command_that_only_reads_cannot_change_its_directory(
    sandbox: Bubblewrap, context: ToolContext, tmp_path: Path
) -> None:
    (context.cwd / "kept").write_text("x")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "book").write_text("y")
    script = f"cat kept {tmp_path}/library/book; rm kept; echo z >kept; touch new {tmp_path}/library/new"
    confined = sandbox.confine(
        Command(
            ("/bin/sh", "-c", script), context.cwd, {"PATH": os.defpath},
            reads=(tmp_path / "library",), writable=False,
        )
    )  # fmt: skip
    done = await asyncio.to_thread(
        subprocess.run, confined.argv, cwd=confined.cwd, env=dict(confined.environment), capture_output=True
    )
    assert done.stdout == b"xy"
    assert (context.cwd / "kept").read_text() == "x"
    assert os.listdir(context.cwd) == ["kept"]
    assert os.listdir(tmp_path / "library") == ["book"]


@requirement("X-12")
async def test_what_leads_to_a_hidden_directory_cannot_be_moved_away(tmp_path: Path) -> None:
    home = tmp_path / "action" / "deep" / "deeper" / ".roundturn"
    home.mkdir(parents=True)
    (home / "secret").write_text("canary")
    context = ToolContext(tmp_path / "action", "call-1", (home,))
    moves = "import os, sys; os.rename(sys.argv[1], 'gone')"
    script = "".join(
        f'python3 -c "{moves}" {way} 2>&1 | tail -1; '
        for way in ("deep", "deep/deeper", "deep/deeper/.roundturn")
    )
    output = (await bash(bubblewrap(home), context, f"touch deep/deeper/works; {script}")).output
    assert len(re.findall("busy|cross-device", output)) == 3
    assert (home.parent / "works").exists()
    assert (home / "secret").exists()


async def test_a_session_in_the_home_sees_its_own_directory_and_no_other(
    sandbox: Bubblewrap, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for session in ("one", "two"):
        (home / "work" / session).mkdir(parents=True)
        (home / "work" / session / "file").write_text(f"of {session}")
    (home / "roundturn.db").write_text("rows")
    context = ToolContext(home / "work" / "one", "call-1")
    script = f"cat file; ls {home} {home}/work; cat ../two/file {home}/roundturn.db 2>/dev/null"
    output = (await bash(sandbox, context, script)).output
    assert output == f"of one{home}:\nwork\n\n{home}/work:\none\nexit code 1"


def _inside(context: ToolContext) -> list[int]:
    """Everything below the processes of the call, also those that have dropped their environment."""
    mine = set(running(context))
    parents = {pid: _parent(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return [pid for pid in mine if b"reaper.py" not in _words(pid)]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _alive(pid: int) -> bool:
    """Neither gone nor waiting to be collected."""
    return bool(_words(pid))
