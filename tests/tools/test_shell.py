"""A shell command ends with all its processes, sees only what it may and answers within bounds."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import uvloop
from pydantic import ValidationError

from roundturn.errors import ToolFailed
from roundturn.sandboxes.none import Unconfined
from roundturn.tool import Effect, ToolContext, ToolResult
from roundturn.tools import shell, supervised
from roundturn.tools.capture import HEAD_BYTES, TAIL_BYTES, Capture
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement
from tests.waiting import until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and adopted orphans")
STUBBORN = 'trap "" TERM; (trap "" TERM; sleep 300)& sleep 300'  # field case P25, word for word
GRACE_S = 3.0
MARGIN_S = 2.0  # for a busy machine


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path, f"call-{tmp_path.name}")


async def bash(context: ToolContext, command: str, timeout_s: int = 20) -> ToolResult:
    result = await Bash(Unconfined()).execute(BashInput(command=command, timeout_s=timeout_s), context)
    assert len(result.output.encode()) <= 32 * 1024
    return result


def alive(pid: int) -> bool:
    """A dead process that process 1 has not collected yet counts as gone."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False


def recorded(context: ToolContext, count: int) -> list[int]:
    """The process ids that a command wrote to `pids`, once there are `count` of them."""
    file = context.cwd / "pids"
    pids = [int(line) for line in file.read_text().split()] if file.exists() else []
    return pids if len(pids) == count else []


async def assert_gone(pids: list[int]) -> None:
    assert pids
    await until(lambda: not any(alive(pid) for pid in pids), limit_s=MARGIN_S)


@requirement("T-12")
def test_bash_runs_once_and_always_asks() -> None:
    spec = Bash(Unconfined()).spec()
    assert spec.effect is Effect.ONCE
    assert (spec.approval, spec.privileged, spec.permission) == ("always", True, "execute")
    assert Bash(Unconfined()).is_read_only(BashInput(command="ls"))
    assert not Bash(Unconfined()).is_read_only(BashInput(command="ls > x"))
    assert spec.limit_s > 3_600 + GRACE_S


@requirement("T-12")
async def test_stdout_and_stderr_come_as_one_in_order(context: ToolContext) -> None:
    assert await bash(context, "echo a; echo b >&2; echo c > /dev/stderr; pwd") == ToolResult(
        output=f"a\nb\nc\n{context.cwd}\n"
    )


@requirement("T-12")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("exit 3", "(no output)\nexit code 3"),
        ("echo no; false", "no\nexit code 1"),
        ("printf x; exit 255", "x\nexit code 255"),
        ("kill -9 $$", "(no output)\nkilled by signal 9 (SIGKILL)"),
        ("kill -TERM $$", "(no output)\nkilled by signal 15 (SIGTERM)"),
        pytest.param("kill -40 $$", "(no output)\nkilled by signal 40 (unnamed)", marks=LINUX),
    ],
)
async def test_a_command_that_fails_is_an_error_that_says_how(
    context: ToolContext, command: str, output: str
) -> None:
    assert await bash(context, command) == ToolResult(output=output, is_error=True)


@requirement("P128", "P132")
@pytest.mark.parametrize("places", [":{}", ".:{}", "bin:{}", "./bin:{}", "{}:", "", ".", "bin:."])
async def test_a_file_in_the_action_directory_is_not_run_in_the_name_of_a_program(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    monkeypatch.setenv("PATH", places.format("/usr/bin:/bin"))
    for name in ("stat", "no-such-program"):
        for file in (context.cwd / name, context.cwd / "bin" / name):
            file.parent.mkdir(exist_ok=True)
            file.write_text("#!/bin/sh\necho taken in\n")
            file.chmod(0o755)
    assert (await bash(context, "stat -c %F bin")).output == "directory\n"
    assert "taken in" not in (await bash(context, "no-such-program")).output


@requirement("P128")
async def test_a_place_in_the_action_directory_is_no_place_for_programs_however_it_is_written(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As an activated environment of the project would put one there."""
    inside = context.cwd / ".venv" / "bin"
    inside.mkdir(parents=True)
    (inside / "stat").write_text("#!/bin/sh\necho taken in\n")
    (inside / "stat").chmod(0o755)
    link = tmp_path_factory.mktemp("elsewhere") / "link"
    link.symlink_to(inside)
    monkeypatch.setenv("PATH", f"{inside}:{link}:{context.cwd}/x/../.venv/bin:/usr/bin:/bin")
    assert (await bash(context, "stat -c %F .venv; echo $PATH")).output == "directory\n/usr/bin:/bin\n"


async def test_a_silent_success_says_so(context: ToolContext) -> None:
    assert await bash(context, "true") == ToolResult(output="(no output)")


async def test_input_is_empty_and_a_closed_pipe_ends_a_writer(context: ToolContext) -> None:
    assert (await bash(context, "cat; wc -c; yes | head -1; echo ${PIPESTATUS[0]}")).output == "0\ny\n141\n"


async def test_the_event_loop_of_production_runs_it_as_well(context: ToolContext) -> None:
    def run() -> list[ToolResult]:
        async def both() -> list[ToolResult]:
            return [
                await bash(context, "echo a > /dev/stderr; head -c 300000 /dev/zero | tr '\\0' x; exit 3"),
                await bash(context, "sleep 300", timeout_s=1),
            ]

        return uvloop.run(both())

    failed, late = await asyncio.to_thread(run)
    assert failed.output.startswith("a\nxxx")
    assert failed.output.endswith("x\nexit code 3")
    assert "timed out after 1 s" in late.output


@requirement("P132", "T-12")
async def test_a_command_sees_a_short_environment_and_none_of_ours(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("OPENAI_API_KEY", "ROUNDTURN_TOKEN", "TEMPORAL_API_KEY", "AWS_SECRET_ACCESS_KEY", "LC_SECRET")
    for name in secrets:
        monkeypatch.setenv(name, f"hidden-{name}")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "UTC")
    names = (await bash(context, "env -u _ -u SHLVL -u PWD -u OLDPWD | cut -d= -f1 | sort")).output.split()
    assert set(names) <= {"PATH", "LANG", "HOME", "TERM", "TMPDIR", "TZ", "IDEMPOTENCY_KEY", *shell.LOCALE}
    assert {"PATH", "HOME", "LC_TIME", "TZ"} <= set(names)
    values = await bash(context, 'echo "$HOME|$TERM|$IDEMPOTENCY_KEY"')
    assert values.output == f"{context.cwd}|dumb|{context.idempotency_key}\n"
    for look in ("env", "cat /proc/self/environ", "cat /proc/$PPID/environ", "set"):
        assert "hidden-" not in (await bash(context, look)).output


@requirement("P25")
async def test_a_timeout_ends_stubborn_children_within_the_grace_and_keeps_what_they_said(
    context: ToolContext,
) -> None:
    started = time.monotonic()
    exact, recording = await asyncio.gather(
        bash(context, STUBBORN, timeout_s=2),
        bash(
            context,
            'trap "" TERM; (trap "" TERM; sleep 300)& echo $$ $! >> pids; setsid sleep 300 2>&- &'
            " echo $! >> pids; (setsid env -i sleep 300 2>&- & echo $! >> pids); echo partial; sleep 300",
            timeout_s=2,
        ),
    )
    assert time.monotonic() - started < 2 + GRACE_S + MARGIN_S
    assert exact == ToolResult(
        output="(no output)\ntimed out after 2 s: its processes were ended, the output is partial",
        is_error=True,
    )
    assert recording.output.startswith("partial\ntimed out after 2 s")
    pids = recorded(context, 4)
    await assert_gone(pids if sys.platform == "linux" else pids[:2])


@requirement("P25")
async def test_a_cancelled_command_ends_with_its_children_before_the_cancellation_goes_on(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "GRACE_S", 1.0)
    call = asyncio.create_task(
        bash(context, f"echo $$ > pids; {STUBBORN.replace('& ', '& echo $! >> pids; ')}")
    )
    await until(lambda: bool(recorded(context, 2)))
    started = time.monotonic()
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()  # impatient callers do not cut the cleaning short
    with pytest.raises(asyncio.CancelledError):
        await call
    assert 0.5 < time.monotonic() - started < 1.0 + MARGIN_S
    assert not any(alive(pid) for pid in recorded(context, 2))


@requirement("P25")
async def test_a_command_that_obeys_is_cancelled_at_once(context: ToolContext) -> None:
    call = asyncio.create_task(bash(context, "echo $$ > pids; sleep 300"))
    await until(lambda: bool(recorded(context, 1)))
    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < GRACE_S / 2
    await assert_gone(recorded(context, 1))


@requirement("P25")
@pytest.mark.parametrize(
    "background",
    [
        pytest.param("sleep 300 &", id="it holds the pipe"),
        pytest.param("sleep 300 > /dev/null 2>&1 &", id="it let go of the pipe"),
        pytest.param("setsid sleep 300 &", id="it left the group", marks=LINUX),
        pytest.param("(setsid env -i sleep 300 & echo $! >> pids) ;", id="it forgot everything", marks=LINUX),
    ],
)
async def test_what_a_command_leaves_in_the_background_ends_with_it(
    context: ToolContext, background: str
) -> None:
    started = time.monotonic()
    result = await bash(context, f"{background} [ -s pids ] || echo $! >> pids; echo done")
    assert time.monotonic() - started < MARGIN_S
    assert result == ToolResult(output="done\nprocesses that it left in the background were ended")
    await assert_gone(recorded(context, 1))


async def test_a_background_process_that_ends_by_itself_is_waited_for(context: ToolContext) -> None:
    assert await bash(context, "echo a > >(sleep 0.1; cat); echo b") == ToolResult(output="b\na\n")


@requirement("P25")
@LINUX
async def test_a_command_that_kills_its_supervisor_is_still_ended(context: ToolContext) -> None:
    result = await bash(context, "setsid sleep 300 & echo $$ $! > pids; echo said; kill -9 $PPID; sleep 300")
    assert result.is_error
    assert (
        result.output == "said\nthe command's supervisor was killed: whether the command finished is unknown"
    )
    await assert_gone(recorded(context, 2))


@requirement("P25")
@LINUX
async def test_a_command_that_stops_its_supervisor_is_still_ended(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "STOP_S", 0.5)
    command = "setsid sleep 300 & echo $$ $! > pids; kill -STOP $PPID; sleep 300"
    assert "timed out after 1 s" in (await bash(context, command, timeout_s=1)).output
    await assert_gone(recorded(context, 2))


@requirement("P25")
async def test_a_crowd_of_stubborn_processes_ends_too(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "GRACE_S", 0.2)
    command = 'trap "" TERM; for n in $(seq 100); do (sleep 300; sleep 300)& echo $! >> pids; done; wait'
    await bash(context, command, timeout_s=1)
    await assert_gone(recorded(context, 100))


@LINUX
async def test_a_command_that_asks_its_supervisor_to_end_ends_itself(context: ToolContext) -> None:
    result = await bash(context, "kill -TERM $PPID; sleep 300")
    assert result == ToolResult(output="(no output)\nkilled by signal 15 (SIGTERM)", is_error=True)


@requirement("P25")
async def test_commands_side_by_side_do_not_hold_each_other(context: ToolContext, tmp_path: Path) -> None:
    """A pipe inherited by a neighbour would keep the first one running until the last one ends."""
    calls = [asyncio.create_task(bash(context, "echo $$ >> pids; sleep 300")) for _ in range(6)]
    await until(lambda: bool(recorded(context, 6)))
    for call in calls:
        call.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - started < GRACE_S / 2
    await assert_gone(recorded(context, 6))


WORKER = """
import asyncio, sys
from pathlib import Path
from roundturn.tool import ToolContext
from roundturn.sandboxes.none import Unconfined
from roundturn.tools.shell import Bash, BashInput
context = ToolContext(Path(sys.argv[1]), "call-of-a-dead-worker")
asyncio.run(Bash(Unconfined()).execute(BashInput(command=sys.argv[2]), context))
"""


@requirement("P25")
async def test_a_command_ends_when_its_worker_is_killed(context: ToolContext) -> None:
    command = 'trap "" TERM; (trap "" TERM; sleep 300)& setsid sleep 300 & echo $$ $! $PPID > pids; sleep 300'
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(context.cwd), command])
    try:
        await until(lambda: bool(recorded(context, 3)))
        assert all(alive(pid) for pid in recorded(context, 3))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    first, leaver, supervisor = recorded(context, 3)
    pids = [first, supervisor] + ([leaver] if sys.platform == "linux" else [])
    await until(lambda: not any(alive(pid) for pid in pids), limit_s=GRACE_S + MARGIN_S)
    with pytest.raises(ProcessLookupError):
        os.killpg(first, 0)


MEASURE = """
import asyncio, resource, sys
from pathlib import Path
from roundturn.tool import ToolContext
from roundturn.sandboxes.none import Unconfined
from roundturn.tools.shell import Bash, BashInput

def peak_bytes():
    status = Path("/proc/self/status")
    if status.exists():  # unlike ru_maxrss, not inherited from the process that started this one
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def main():
    context = ToolContext(Path(sys.argv[1]), "call-1")
    await Bash(Unconfined()).execute(BashInput(command="head -c 1000000 /dev/zero"), context)
    before = peak_bytes()
    result = await Bash(Unconfined()).execute(BashInput(command=sys.argv[2]), context)
    print(peak_bytes() - before, result.is_error, len(result.output.encode()))
    print(result.output)

asyncio.run(main())
"""


@requirement("P27", "P20")
@pytest.mark.parametrize(
    ("command", "total"),
    [
        pytest.param("yes | head -c 200000000", "200000000 bytes in all", id="200 MB"),
        pytest.param(
            "head -c 50000000 /dev/zero | tr '\\0' x", "50000000 bytes in all", id="one line of 50 MB"
        ),
        pytest.param("head -c 50000000 /dev/urandom", "50000000 bytes in all", id="binary"),
    ],
)
async def test_output_of_any_size_is_bounded_and_leaves_memory_flat(
    context: ToolContext, command: str, total: str
) -> None:
    run = [sys.executable, "-c", MEASURE, str(context.cwd), command]
    measured = await asyncio.to_thread(subprocess.run, run, capture_output=True, check=True)
    first, _, output = measured.stdout.decode().partition("\n")
    grown, is_error, size = first.split()
    assert int(grown) < 2_000_000
    assert is_error == "False"
    assert 20 * 1024 < int(size) <= 32 * 1024
    assert total in output
    assert "\x00" not in output


@requirement("T-12", "P27")
async def test_a_long_output_keeps_its_beginning_and_its_end(context: ToolContext) -> None:
    result = await bash(
        context, "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last; exit 7"
    )
    assert result.output.startswith("first\nxxx")
    assert "\n[... 1000012 bytes in all, the middle is cut ...]\n" in result.output
    assert result.output.endswith("x\nlast\nexit code 7")
    assert len(result.output) > 29 * 1024


@requirement("P27", "X-07")
@pytest.mark.parametrize("shift", [1, 8, 120, 163])
def test_a_long_output_is_cut_between_words(shift: int) -> None:
    """Half a secret is not known for one."""
    key = b"corp" + b"A1b2C3d4" * 20 + b"WXYZ"
    head, _, tail = captured(b" " * 200_000).partition("\n[... 200000 bytes in all, the middle is cut ...]\n")
    for cut in (len(head), 200_000 - len(tail)):
        shown = captured((b" " * (cut - shift) + key).ljust(200_000))
        assert "middle is cut" in shown
        assert not {"corp", "A1b2", "WXYZ"} & set(re.findall("corp|A1b2|WXYZ", shown))


def captured(raw: bytes) -> str:
    capture = Capture()
    capture.add(raw)
    return capture.text(32_000)


@requirement("P27")
@pytest.mark.parametrize("chunk", [1, 7, 4_096, 1_000_000])
@pytest.mark.parametrize(
    "size", [0, 1, HEAD_BYTES, HEAD_BYTES + TAIL_BYTES, HEAD_BYTES + TAIL_BYTES + 1, 100_000]
)
@pytest.mark.parametrize("pattern", ["x", "漢", "a😀", "\ufffd", b"\xff", b"\x00", b"\xf0\x9f"])
def test_what_is_kept_does_not_depend_on_how_the_output_came(
    size: int, chunk: int, pattern: str | bytes
) -> None:
    raw = pattern.encode() if isinstance(pattern, str) else pattern
    whole = raw * (size // len(raw))
    capture = Capture()
    for start in range(0, len(whole), chunk):
        capture.add(whole[start : start + chunk])
    text = capture.text(32_000)
    assert capture.total_bytes == len(whole)
    assert len(text.encode()) <= 32_000
    assert "\x00" not in text
    if "bytes in all" in text:
        assert isinstance(pattern, bytes) or "\ufffd" not in text.replace(pattern, "")
        assert len(text.encode()) > 20_000
    else:
        assert text.replace("\ufffd", "") == whole.decode(errors="ignore").replace("\ufffd", "").replace(
            "\x00", ""
        )


async def test_without_bash_the_answer_says_which_shell_ran(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "SHELLS", (context.cwd / "bash", Path("/bin/sh")))
    assert (await bash(context, "echo $0")).output.endswith(
        "bash is missing on this machine: /bin/sh ran the command"
    )
    monkeypatch.setattr(shell, "SHELLS", (context.cwd / "bash",))
    with pytest.raises(ToolFailed, match="no shell"):
        await bash(context, "true")


async def test_a_command_that_cannot_start_is_a_failure_and_leaks_nothing(context: ToolContext) -> None:
    descriptors = len(os.listdir("/dev/fd"))
    for broken in (ToolContext(context.cwd / "gone", "call-1"), ToolContext(context.cwd, "call\0")):
        with pytest.raises(ToolFailed) as failure:
            await bash(broken, "true")
        assert failure.value.kind == "not_started"
    with pytest.raises(ToolFailed, match="too long"):
        await bash(context, "😀" * 32_768)  # one argument of Linux has 131,071 bytes
    assert len(os.listdir("/dev/fd")) == descriptors


@requirement("P25")
async def test_a_command_cancelled_while_it_starts_does_not_miss_the_signal(context: ToolContext) -> None:
    started = time.monotonic()
    for delay_ms in range(0, 40, 4):
        call = asyncio.create_task(bash(context, "sleep 300"))
        await asyncio.wait([call], timeout=delay_ms / 1_000)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert time.monotonic() - started < GRACE_S


async def test_commands_leave_no_descriptors_behind(context: ToolContext) -> None:
    await bash(context, "true")
    descriptors = len(os.listdir("/dev/fd"))
    for _ in range(3):
        await bash(context, "echo x")
        call = asyncio.create_task(bash(context, "sleep 300"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert len(os.listdir("/dev/fd")) == descriptors


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ""},
        {"command": "x" * 32_769},
        {"command": "a\0b"},
        {"command": "true", "timeout_s": 0},
        {"command": "true", "timeout_s": 3_601},
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BashInput.model_validate(arguments)


async def test_supervision_costs_little(context: ToolContext) -> None:
    async def once() -> float:
        started = time.perf_counter()
        await bash(context, "true")
        return time.perf_counter() - started

    assert min([await once() for _ in range(5)]) < 0.1  # about 25 ms on an idle machine
