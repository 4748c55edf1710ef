"""Files are shown in numbered, bounded slices and replaced whole."""

import asyncio
import fcntl
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from roundturn import jsontext
from roundturn.errors import ToolFailed
from roundturn.tool import Effect, ToolContext
from roundturn.tools import BUILTIN, files, replacement
from roundturn.tools.files import ReadFile, ReadFileInput, WriteFile, WriteFileInput
from tests.requirements import requirement


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "action").mkdir()
    (tmp_path / "workspace").mkdir()
    return ToolContext(tmp_path / "action", "call-1", (tmp_path / "workspace",))


async def read(context: ToolContext, path: str, **slice_: int) -> str:
    result = await ReadFile().execute(ReadFileInput(path=path, **slice_), context)
    assert not result.is_error
    assert len(result.output.encode()) <= 32 * 1024
    return result.output


async def write(context: ToolContext, path: str, content: str) -> str:
    return (await WriteFile().execute(WriteFileInput(path=path, content=content), context)).output


def put(context: ToolContext, name: str, content: bytes) -> None:
    (context.cwd / name).write_bytes(content)


def test_the_tools_are_listed_under_their_own_names() -> None:
    assert {name: tool.name for name, tool in BUILTIN.items()} == {name: name for name in BUILTIN}
    assert BUILTIN["read_file"] is ReadFile
    for tool in BUILTIN.values():
        assert tool().spec().description


@requirement("T-11")
def test_reading_is_pure_and_brief_and_writing_is_keyed() -> None:
    assert ReadFile().is_read_only(None)
    assert ReadFile().spec().brief
    assert WriteFile().spec().effect is Effect.KEYED
    assert not WriteFile().is_read_only(None)


@requirement("T-11")
async def test_a_range_gives_exactly_its_numbered_lines(context: ToolContext) -> None:
    put(context, "f", b"".join(b"line %d\n" % n for n in range(1, 11)))
    assert await read(context, "f", offset=3, limit=2) == (
        "     3\tline 3\n     4\tline 4\n... 6 more lines; use offset=5\n"
    )
    assert await read(context, "f", offset=9) == "     9\tline 9\n    10\tline 10\n"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "(the file is empty)"),
        (b"a", "     1\ta\n"),
        (b"a\n", "     1\ta\n"),
        (b"a\n\n", "     1\ta\n     2\t\n"),
        (b"a\r\nb", "     1\ta\n     2\tb\n"),
        ("ü 漢 😀".encode(), "     1\tü 漢 😀\n"),
    ],
)
async def test_lines_are_shown_as_they_are(context: ToolContext, content: bytes, shown: str) -> None:
    put(context, "f", content)
    assert await read(context, "f") == shown


async def test_the_count_of_what_is_left_includes_an_unfinished_line(context: ToolContext) -> None:
    put(context, "f", b"1\n2\n3\n4")
    assert (await read(context, "f", limit=1)).endswith("... 3 more lines; use offset=2\n")
    assert (await read(context, "f", limit=3)).endswith("... 1 more lines; use offset=4\n")


async def test_an_offset_past_the_end_says_how_long_the_file_is(context: ToolContext) -> None:
    put(context, "f", b"1\n2\n")
    with pytest.raises(ToolFailed, match="has 2 lines") as failure:
        await read(context, "f", offset=3)
    assert failure.value.kind == "past_end"


@pytest.mark.parametrize("letter", [" ", "漢", "😀"])
async def test_a_long_line_is_cut_at_2000_characters(context: ToolContext, letter: str) -> None:
    put(context, "f", f"{letter * 2_000}\n{letter * 2_001}\n{letter * 30_000}\nend\n".encode())
    lines = (await read(context, "f", limit=4)).splitlines()
    assert lines[0] == f"     1\t{letter * 2_000}"
    assert lines[1] == f"     2\t{letter * 2_000} [... line cut]"
    assert lines[2] == f"     3\t{letter * 2_000} [... line cut]"
    assert lines[3] == "     4\tend"


@requirement("X-07")
async def test_a_line_is_cut_between_words(context: ToolContext) -> None:
    key = "corp" + "A1b2C3d4" * 20 + "WXYZ"
    put(context, "f", f"{'x ' * 920}'{key}' and more\n{'x' * 2_001}\n".encode())
    first, second = (await read(context, "f")).splitlines()
    assert first == f"     1\t{'x ' * 920}' [... line cut]"
    assert second == f"     2\t{'x' * (2_000 - jsontext.LONGEST_BROKEN)} [... line cut]"


@requirement("T-11", "P20")
async def test_a_slice_that_does_not_fit_stops_and_says_where_to_go_on(context: ToolContext) -> None:
    put(context, "f", b"".join(b"%d" % n + b"x" * 500 + b"\n" for n in range(1, 2_001)))
    seen, offset = [], 1
    while True:
        output = await read(context, "f", offset=offset, limit=2_000)
        *lines, last = output.splitlines()
        seen += [int(line.split("\t")[0]) for line in lines]
        if "more lines" not in last:
            break
        offset = int(last.rpartition("=")[2])
        assert f"... {2_000 - len(seen)} more lines" in last
    assert [*seen, 2_000] == list(range(1, 2_001))


@requirement("T-11")
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", id="an image"),
        pytest.param(b"text\n" * 100 + b"\x00", id="NUL after text"),
        pytest.param("héllo wörld\n".encode("utf-16") * 50, id="UTF-16"),
        pytest.param("é".encode("latin-1") * 300, id="Latin-1"),
        pytest.param(bytes(range(1, 256)) * 40, id="every byte"),
    ],
)
async def test_a_binary_file_is_refused(context: ToolContext, content: bytes) -> None:
    put(context, "f", content)
    with pytest.raises(ToolFailed, match="not UTF-8 text") as failure:
        await read(context, "f")
    assert failure.value.kind == "binary_file"


@requirement("T-11")
async def test_a_script_with_an_archive_behind_it_is_shown_up_to_the_archive(context: ToolContext) -> None:
    put(context, "f", b"ok\n" * 3_000 + b"\xfe\xff\x9c" * 9_000)
    assert (await read(context, "f", limit=1)).startswith("     1\tok\n... 3000 more lines")
    with pytest.raises(ToolFailed, match="not UTF-8 text"):
        await read(context, "f", offset=3_001)


async def test_one_stray_byte_in_a_log_is_shown_as_a_replacement(context: ToolContext) -> None:
    put(context, "f", b"a normal line of a log\n" * 40 + b"caf\xe9\n")
    assert await read(context, "f", offset=41) == "    41\tcaf\ufffd\n"
    assert "    41\tcaf\ufffd\n" in await read(context, "f")


async def test_a_replacement_character_in_the_file_is_text(context: ToolContext) -> None:
    put(context, "f", "\ufffd\ufffd\ufffd\n".encode())
    assert await read(context, "f") == "     1\t\ufffd\ufffd\ufffd\n"


async def test_a_missing_file_names_what_is_near(context: ToolContext) -> None:
    for name in ("settings.py", "setup.py", "README.md", "x\ny"):
        put(context, name, b"")
    with pytest.raises(ToolFailed, match=r"settings\.py") as failure:
        await read(context, "setings.py")
    assert failure.value.kind == "not_found"
    with pytest.raises(ToolFailed, match=r"README\.md"):
        await read(context, "zzzzzz")
    with pytest.raises(ToolFailed, match="directory on the way is missing"):
        await read(context, "no/such/file")


async def test_what_a_missing_file_names_is_bounded(context: ToolContext) -> None:
    for n in range(2_500):
        put(context, f"{n:04d}{'x' * 200}", b"")
    with pytest.raises(ToolFailed) as failure:
        await read(context, f"0001{'x' * 199}")
    assert len(failure.value.detail) < 2_000


@pytest.mark.parametrize("path", [".", "directory"])
async def test_a_directory_is_not_a_file(context: ToolContext, path: str) -> None:
    (context.cwd / "directory").mkdir()
    for attempt in (read(context, path), write(context, path, "x")):
        with pytest.raises(ToolFailed) as failure:
            await attempt
        assert failure.value.kind in ("is_directory", "path_refused")


@requirement("X-12")
@pytest.mark.parametrize("form", ["../workspace/x", "{tmp}/workspace/x", "a/../../workspace/x", "link/x"])
async def test_the_workspace_is_out_of_reach(context: ToolContext, tmp_path: Path, form: str) -> None:
    (tmp_path / "workspace" / "x").write_text("internal")
    (context.cwd / "link").symlink_to("../workspace")
    path = form.replace("{tmp}", str(tmp_path))
    for attempt in (read(context, path), write(context, path, "mine")):
        with pytest.raises(ToolFailed) as failure:
            await attempt
        assert failure.value.kind == "path_refused"
    assert (tmp_path / "workspace" / "x").read_text() == "internal"


async def test_a_huge_file_is_streamed_and_not_counted_to_its_end(context: ToolContext) -> None:
    with open(context.cwd / "f", "wb") as file:
        file.writelines(b"0123456789abcde\n" * 65_536 for _ in range(64))
    output = await read(context, "f", offset=2_000_000, limit=1)
    assert output.startswith("2000000\t0123456789abcde\n... at least ")
    assert output.endswith("use offset=2000001\n")


async def test_a_cancelled_read_leaves_no_thread_at_work(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "f", b"x\n")
    inside, ended = threading.Event(), threading.Event()

    def slow(_file: Any, _arguments: Any, stopped: threading.Event) -> str:
        inside.set()
        if stopped.wait(10):
            ended.set()
        return ""

    monkeypatch.setattr(files, "_slice", slow)
    reading = asyncio.create_task(read(context, "f"))
    await asyncio.to_thread(inside.wait, 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(ended.wait, 10)


async def test_writing_creates_directories_and_says_what_it_did(context: ToolContext) -> None:
    assert await write(context, "a/b/c.txt", "grüße") == "Created a/b/c.txt (7 bytes)"
    assert await write(context, "a/b/c.txt", "") == "Replaced a/b/c.txt (0 bytes)"
    assert (context.cwd / "a/b/c.txt").read_bytes() == b""
    assert [p.name for p in (context.cwd / "a/b").iterdir()] == ["c.txt"]


async def test_writing_keeps_the_mode_and_drops_set_user_id(context: ToolContext) -> None:
    put(context, "run.sh", b"old")
    (context.cwd / "run.sh").chmod(0o4750)
    await write(context, "run.sh", "new")
    assert stat.S_IMODE((context.cwd / "run.sh").stat().st_mode) == 0o750


async def test_a_new_file_obeys_the_umask(context: ToolContext) -> None:
    before = os.umask(0o027)
    try:
        await write(context, "f", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((context.cwd / "f").stat().st_mode) == 0o640


async def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "f", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replacement.os, "fsync", full)
    with pytest.raises(ToolFailed, match="No space left") as failure:
        await write(context, "f", "new")
    assert failure.value.kind == "write_failed"
    assert (context.cwd / "f").read_text() == "old"
    assert [p.name for p in context.cwd.iterdir()] == ["f"]


async def test_a_reader_sees_the_old_or_the_new_content_and_nothing_between(context: ToolContext) -> None:
    contents = {letter * 200_000 for letter in "ab"}
    await write(context, "f", "a" * 200_000)
    seen, stop = set(), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((context.cwd / "f").read_text())

    watching = asyncio.create_task(asyncio.to_thread(watch))
    for n in range(40):
        await write(context, "f", "ab"[n % 2] * 200_000)
    stop.set()
    await watching
    assert seen <= contents


async def test_a_hard_link_elsewhere_keeps_its_content(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "original").write_text("theirs")
    (context.cwd / "f").hardlink_to(tmp_path / "original")
    await write(context, "f", "mine")
    assert (tmp_path / "original").read_text() == "theirs"


@pytest.mark.parametrize(
    "arguments",
    [{"path": ""}, {"path": "f", "offset": 0}, {"path": "f", "limit": 0}, {"path": "f", "limit": 2_001}],
)
def test_a_range_that_means_nothing_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReadFileInput(**arguments)


@pytest.mark.parametrize("content", ["x" * 1_000_001, "ü" * 500_001])
def test_content_is_limited_in_bytes(content: str) -> None:
    with pytest.raises(ValidationError):
        WriteFileInput(path="f", content=content)
    WriteFileInput(path="f", content="x" * 1_000_000)


async def test_a_cancelled_write_changes_nothing_afterwards(context: ToolContext) -> None:
    """It waits for the lock that another one holds, is cancelled, and the lock comes free."""
    file = context.cwd / "f"
    file.write_text("before")
    directory = os.open(context.cwd, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        writing = asyncio.create_task(write(context, "f", "too late"))
        done, _ = await asyncio.wait({writing}, timeout=0.2)
        assert not done, "it waits for the lock"
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        fcntl.flock(directory, fcntl.LOCK_UN)
        await write(context, "g", "afterwards")
        assert file.read_text() == "before"
    finally:
        os.close(directory)
