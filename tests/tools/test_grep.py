"""A search finds lines within bounds, and no pattern keeps a process or the worker busy."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop
from pydantic import ValidationError

from roundturn import jsontext
from roundturn.errors import ToolFailed
from roundturn.tool import Effect, Permission, ToolContext, ToolResult
from roundturn.tools import grep as grep_module
from roundturn.tools import searcher, walk
from roundturn.tools.grep import Grep, GrepInput, Search
from tests.requirements import requirement
from tests.waiting import until

ENDLESS = r"(x+x+)+y"  # doubles its work with each letter that does not fit
VICTIM = "x" * 60
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "action").mkdir()
    return ToolContext(tmp_path / "action", f"call-{tmp_path.name}", (tmp_path / "action" / "internal",))


def put(context: ToolContext, **contents: str | bytes) -> None:
    for name, content in contents.items():
        put_at(context, name, content)


def put_at(context: ToolContext, name: str, content: str | bytes) -> None:
    file = context.cwd / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


async def grep(context: ToolContext, pattern: str, **more: Any) -> ToolResult:
    result = await Grep().execute(GrepInput(pattern=pattern, **more), context)
    assert len(result.output.encode()) <= 32 * 1024
    return result


async def lines(context: ToolContext, pattern: str, **more: Any) -> list[str]:
    result = await grep(context, pattern, **more)
    assert not result.is_error
    return result.output.splitlines()


def searchers(context: ToolContext) -> list[int]:
    """Processes of this call that are alive, by the key in their environment."""
    entry, found = f"IDEMPOTENCY_KEY={context.idempotency_key}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if entry in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def busy(context: ToolContext) -> list[int]:
    """Those that have been at a pattern for a while."""
    ticks = {
        pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in searchers(context)
    }
    return [pid for pid, fields in ticks.items() if int(fields[11]) > os.sysconf("SC_CLK_TCK") // 4]


@requirement("T-17")
def test_grep_is_pure_and_not_brief() -> None:
    spec = Grep().spec()
    assert (spec.effect, spec.permission, spec.brief) == (Effect.PURE, Permission.READ, False)
    assert (spec.category, spec.family) == ("files", "files")
    assert spec.limit_s > 60
    assert Grep().is_read_only(GrepInput(pattern="x"))


async def test_lines_are_found_with_their_places(context: ToolContext) -> None:
    put_at(context, "src/a.py", "import os\n\ndef f():\n    return os\n")
    put(context, b="os\r\nOS\r\n")
    assert await lines(context, r"\bos$") == ["b:1: os", "src/a.py:1: import os", "src/a.py:4:     return os"]
    assert await lines(context, "^os$", ignore_case=True) == ["b:1: os", "b:2: OS"]
    assert await lines(context, "return", path="src") == ["src/a.py:4:     return os"]
    assert await lines(context, "return", path="src/a.py") == ["src/a.py:4:     return os"]
    assert await lines(context, "os", glob="*.py") == ["src/a.py:1: import os", "src/a.py:4:     return os"]
    assert await lines(context, "nowhere") == ["(no such line in 2 files)"]


async def test_only_a_line_feed_ends_a_line(context: ToolContext) -> None:
    put(context, f="a\x0bb\u2028c\n\nlast")
    assert await lines(context, "last") == ["f:3: last"]
    assert await lines(context, "^$") == ["f:2: "]


async def test_the_event_loop_of_production_runs_it_as_well(context: ToolContext) -> None:
    put(context, f="a\n")
    assert await asyncio.to_thread(uvloop.run, lines(context, "a")) == ["f:1: a"]


@requirement("P134", "X-12")
async def test_odd_names_are_shown_safely(context: ToolContext) -> None:
    Path(os.fsdecode(os.fsencode(context.cwd) + b"/a\n\xff")).write_text("here\n")
    assert await lines(context, "here") == ['"a\\u000a\\xff":1: here']


async def test_binary_and_big_files_are_left_out_and_counted(context: ToolContext) -> None:
    put(context, nul=b"needle\x00", image=bytes(range(1, 256)) * 40, text="needle\n")
    with open(context.cwd / "big", "wb") as file:
        file.truncate(grep_module.MAX_FILE_BYTES + 1)
    assert await lines(context, "needle") == [
        "text:1: needle",
        "... 2 binary files left out",
        "... 1 files of more than 10000000 bytes left out",
    ]


async def test_a_file_of_ten_megabytes_is_searched(context: ToolContext) -> None:
    put(context, f=b"x" * 99 + b"\n" + b"some line of a log\n" * 500_000 + b"needle\n")
    assert await lines(context, "needle", timeout_s=60) == ["f:500002: needle"]


async def test_long_lines_are_shown_around_what_was_found(context: ToolContext) -> None:
    put(context, f="a " * 2_500 + "needle" + " b" * 2_500 + "\n" + "needle" + " c" * 500)
    first, second = await lines(context, "needle")
    assert first == "f:1: [...] " + " a" * 49 + " needle" + " b" * 96 + "  [...]"
    assert second == "f:2: needle" + " c" * 146 + "  [...]"


@requirement("X-07")
@pytest.mark.parametrize("begin", range(90, 110))
async def test_an_excerpt_holds_no_part_of_a_word(context: ToolContext, begin: int) -> None:
    key = "corp" + "A1b2C3d4" * 20 + "WXYZ"
    put(
        context,
        f="z " * 300 + key + " " + "z" * begin + " needle" + " z" * (200 - begin // 2) + key + " z" * 300,
    )
    for pattern in ("WXYZ", "needle"):
        for line in await lines(context, pattern):
            assert "A1b2" not in line.replace(key, "")
    assert jsontext.WORD == searcher.WORD


@requirement("P20", "P27")
async def test_a_search_stops_at_its_limit_and_at_the_size_of_an_output(context: ToolContext) -> None:
    put(context, a="x\n" * 5_000, b="x\n")
    assert await lines(context, "x", limit=3) == [
        "a:1: x", "a:2: x", "a:3: x", "... perhaps more: 3 lines fit; look in less"
    ]  # fmt: skip
    put(context, c="\u202e" * 299 + "y\n" + ("漢" * 300 + "\n") * 1_000)
    output = (await grep(context, "y|漢", limit=1_000)).output
    assert "... perhaps more:" in output.splitlines()[-1]


async def test_nul_and_undecodable_bytes_in_lines_become_replacements(context: ToolContext) -> None:
    put(context, f=b"text\n" * 2_000 + b"n\x00eedle caf\xe9\n")
    assert await lines(context, "eedle") == ["f:2001: n\ufffdeedle caf\ufffd"]


@pytest.mark.parametrize(
    "pattern", ["(", "*", "[a", "(?P<n>a)(?P<n>b)", "(?<=a+)b", "a{99999999999}", "(" * 500]
)
async def test_what_is_no_pattern_is_told(context: ToolContext, pattern: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        await grep(context, pattern)
    assert failure.value.kind == "bad_pattern"


@LINUX
def test_a_searcher_gets_no_more_than_its_memory() -> None:
    process = subprocess.run(
        [sys.executable, "-S", "-E", "-I", searcher.__file__, "10"],
        input=b'["x", false]\n2000000000 1\nx', capture_output=True, check=False,
    )  # fmt: skip
    assert process.stdout == b"[]\n"
    assert process.returncode != 0
    assert b"MemoryError" in process.stderr


@pytest.mark.parametrize(("path", "kind"), [("no", "not_found"), ("no/where", "not_found")])
async def test_a_path_that_leads_nowhere_is_told(context: ToolContext, path: str, kind: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        await grep(context, "x", path=path)
    assert failure.value.kind == kind


@requirement("P25")
@LINUX
async def test_a_pattern_without_end_is_ended_and_what_was_found_is_kept(context: ToolContext) -> None:
    put(context, a="xxy\n", b=VICTIM, c="xxy\n")
    begin = time.monotonic()
    result = await grep(context, ENDLESS, timeout_s=1)
    assert time.monotonic() - begin < 10
    assert result.is_error
    assert result.output == (
        "a:1: xxy\n... timed out after 1 s at b: the search is not complete; look in less, or for something simpler\n"
    )
    assert searchers(context) == []


@requirement("P25")
@LINUX
async def test_a_cancelled_search_leaves_no_process(context: ToolContext) -> None:
    put(context, b=VICTIM)
    work = asyncio.create_task(grep(context, ENDLESS, timeout_s=60))
    await until(lambda: busy(context))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert searchers(context) == []


@LINUX
async def test_a_cancellation_at_once_leaves_no_process(context: ToolContext) -> None:
    put(context, b=VICTIM)
    work = asyncio.create_task(grep(context, ENDLESS, timeout_s=60))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert searchers(context) == []


SEARCH = """
import asyncio, sys
from pathlib import Path
from roundturn.tool import ToolContext
from roundturn.tools.grep import Grep, GrepInput
arguments = GrepInput(pattern=sys.argv[3], timeout_s=3)
asyncio.run(Grep().execute(arguments, ToolContext(Path(sys.argv[1]), sys.argv[2])))
"""


@requirement("P25")
@LINUX
async def test_a_killed_worker_leaves_a_searcher_that_ends_by_its_processor_time(
    context: ToolContext,
) -> None:
    put(context, b=VICTIM)
    worker = subprocess.Popen(
        [sys.executable, "-c", SEARCH, str(context.cwd), context.idempotency_key, ENDLESS]
    )
    try:
        await until(lambda: busy(context))
    finally:
        worker.kill()
        worker.wait()
    assert busy(context), "it ended with its input"
    await until(lambda: not searchers(context), limit_s=30)


async def test_a_searcher_that_dies_is_told(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    put(context, a="x\n", b="x\n")
    look = Search._look

    def killing(self: Search, name: str, content: bytes) -> None:
        if name == "b":
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        look(self, name, content)

    monkeypatch.setattr(Search, "_look", killing)
    result = await grep(context, "x")
    assert result.is_error
    assert result.output == "a:1: x\n... the search broke off at b, perhaps for want of memory\n"


async def test_the_worker_answers_others_while_a_pattern_goes_on(context: ToolContext) -> None:
    put(context, b=VICTIM)
    work = asyncio.create_task(grep(context, ENDLESS, timeout_s=1))
    longest = 0.0
    while not work.done():
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - begin)
    assert longest < 0.9


@requirement("P132")
@LINUX
async def test_the_searcher_sees_a_short_environment_and_no_path(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    put(context, b=VICTIM)
    work = asyncio.create_task(grep(context, ENDLESS, timeout_s=60))
    await until(lambda: searchers(context))
    (pid,) = searchers(context)
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"OPENAI" not in environ
    assert b"PYTHON" not in environ
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert str(context.cwd).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert os.getpgid(pid) == pid
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_modules_that_lie_in_the_directory_are_not_loaded(context: ToolContext) -> None:
    for name in ("re.py", "json.py", "resource.py"):
        put_at(context, name, "raise SystemExit('needle')\n")
    assert len(await lines(context, "needle")) == 3


@requirement("X-12")
async def test_links_are_not_followed_and_protected_directories_not_read(
    context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("canary\n")
    (context.cwd / "out").symlink_to(tmp_path / "outside")
    (context.cwd / "file").symlink_to(tmp_path / "outside" / "f")
    os.mkfifo(context.cwd / "pipe")
    put_at(context, "internal/f", "canary\n")
    assert await lines(context, "canary") == ["(no such line in 0 files)", "... 1 protected, not shown"]


async def test_a_file_that_becomes_a_link_meanwhile_is_not_read(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "canary").write_text("canary\n")
    put(context, a="x\n", b="x\n")
    entries = walk.Walk._entries

    def then(self: walk.Walk, *given: Any) -> list[walk.Entry]:
        found = entries(self, *given)
        (context.cwd / "a").unlink()
        (context.cwd / "b").unlink()
        (context.cwd / "a").symlink_to(tmp_path / "canary")
        return found

    monkeypatch.setattr(walk.Walk, "_entries", then)
    assert await lines(context, "canary|x") == [
        "(no such line in 0 files)", "... 2 files could not be read or changed meanwhile"
    ]  # fmt: skip


def test_an_excerpt_of_any_place_is_bounded_and_has_what_was_found() -> None:
    for length in (299, 300, 301, 1_000):
        for start in range(0, length, 7):
            line = ("a " * start)[-start:] * (start > 0) + "N" + (" b" * length)[: length - start - 1]
            shown = searcher.excerpt(line, start)
            assert "N" in shown
            assert len(shown) <= searcher.EXCERPT_CHARS + 12


@pytest.mark.parametrize(
    "more", [{"pattern": ""}, {"pattern": "x" * 1_001}, {"limit": 0}, {"timeout_s": 0}, {"timeout_s": 61}]
)
def test_bounds_that_mean_nothing_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GrepInput(**({"pattern": "x"} | more))


async def test_no_descriptor_and_no_process_is_left(context: ToolContext) -> None:
    put_at(context, "a/b", "x\n")
    await grep(context, "x")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        await grep(context, "x", limit=1)
        with pytest.raises(ToolFailed):
            await grep(context, "(")
        with pytest.raises(ToolFailed):
            await grep(context, "x", path="no")
    assert len(os.listdir("/dev/fd")) <= before
