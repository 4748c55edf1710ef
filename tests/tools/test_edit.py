"""An edit changes exactly what was meant, once, and nobody else's work is lost."""

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from roundturn.errors import ToolFailed
from roundturn.tool import Effect, Permission, ToolContext
from roundturn.tools import edit, replacement
from roundturn.tools.edit import EditFile, EditFileInput
from roundturn.tools.files import WriteFile, WriteFileInput
from tests.requirements import requirement

PARALLEL = 24
BOM = b"\xef\xbb\xbf"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "action").mkdir()
    (tmp_path / "workspace").mkdir()
    return ToolContext(tmp_path / "action", "call-1", (tmp_path / "workspace",))


def put(context: ToolContext, content: bytes, name: str = "f") -> Path:
    (context.cwd / name).write_bytes(content)
    return context.cwd / name


async def change(context: ToolContext, old: str, new: str, path: str = "f", **more: Any) -> str:
    arguments = EditFileInput(path=path, old=old, new=new, **more)
    return (await EditFile().execute(arguments, context)).output


async def refused(context: ToolContext, old: str, new: str, path: str = "f", **more: Any) -> ToolFailed:
    """The refusal, after which every file is what it was."""
    before = {p: p.read_bytes() for p in context.cwd.rglob("*") if p.is_file()}
    with pytest.raises(ToolFailed) as failure:
        await change(context, old, new, path, **more)
    assert {p: p.read_bytes() for p in context.cwd.rglob("*") if p.is_file()} == before
    return failure.value


@requirement("T-17")
def test_an_edit_writes_and_runs_once() -> None:
    spec = EditFile().spec()
    assert (spec.effect, spec.permission) == (Effect.ONCE, Permission.WRITE)
    assert (spec.category, spec.family) == ("files", "files")
    assert not EditFile().is_read_only(EditFileInput(path="f", old="a", new="b"))


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        pytest.param(b"a\nb\nc\n", "b", "B", b"a\nB\nc\n", id="a word"),
        pytest.param(b"a\nb\nc\n", "a\nb\n", "", b"c\n", id="lines away"),
        pytest.param(b"a\nb", "b", "b2\n", b"a\nb2\n", id="new contains old"),
        pytest.param(b"a", "a", "b", b"b", id="no final newline"),
        pytest.param(b"a.c abc", "a.c", "x", b"x abc", id="no pattern"),
        pytest.param(b"a\n", "a", r"\1\g<0>", b"\\1\\g<0>\n", id="no template"),
        pytest.param(b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n", id="CRLF, asked with LF"),
        pytest.param(b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n", id="CRLF, asked with CRLF"),
        pytest.param(b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n", id="CRLF, new lines"),
        pytest.param(b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n", id="mixed, untouched"),
        pytest.param(BOM + b"a\n", "a", "b", BOM + b"b\n", id="BOM"),
        pytest.param("naïve 漢字 😀\n".encode(), "漢字", "kanji", "naïve kanji 😀\n".encode(), id="wide"),
        pytest.param(
            b"x" * 2000 + b" caf\xe9 a\n", "a\n", "b\n", b"x" * 2000 + b" caf\xe9 b\n", id="Latin-1"
        ),
        pytest.param(b"a\rb\x0bc\n", "b", "B", b"a\rB\x0bc\n", id="odd white space"),
    ],
)
async def test_only_what_was_named_changes(
    context: ToolContext, content: bytes, old: str, new: str, after: bytes
) -> None:
    file = put(context, content)
    said = await change(context, old, new)
    assert file.read_bytes() == after
    assert said.startswith("Replaced 1 occurrence in f, line ")
    assert f"({len(after)} bytes now)" in said


async def test_mode_is_kept_without_set_user_id_and_no_litter_stays(context: ToolContext) -> None:
    file = put(context, b"#!/bin/sh\nold\n", "run.sh")
    file.chmod(0o4750)
    await change(context, "old", "new", "run.sh")
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert [p.name for p in context.cwd.iterdir()] == ["run.sh"]


async def test_text_that_is_there_several_times_is_not_guessed_at(context: ToolContext) -> None:
    put(context, b"x\ny\nx\nx\n")
    failure = await refused(context, "x", "z")
    assert failure.kind == "ambiguous"
    assert "occurs 3 times in f, lines 1, 3, 4;" in failure.detail
    assert "replace_all" in failure.detail


async def test_text_that_overlaps_itself_is_not_guessed_at(context: ToolContext) -> None:
    put(context, b"aaa\n")
    assert (await refused(context, "aa", "b")).kind == "ambiguous"


async def test_all_are_replaced_when_asked(context: ToolContext) -> None:
    file = put(context, b"x\ny x\n" * 20)
    assert "Replaced 40 occurrences in f, lines 1, 2, 3, " in (
        said := await change(context, "x", "zz", replace_all=True)
    )
    assert said.endswith("and 30 more (160 bytes now)")
    assert file.read_bytes() == b"zz\ny zz\n" * 20


@pytest.mark.parametrize(
    ("content", "old", "told"),
    [
        (b"", "a", "the file is empty"),
        (b"def f():\n    retrun 1\n", "return 1", "The nearest is line 2: '    retrun 1'"),
        (b"def f():\n\treturn 1\n", "    return 1", r"Line 2 differs in white space at its ends only: '\treturn 1'"),
        (b"a\nb\nc\nd\n", "b\nc\nx\n", "Its beginning is at line 2; the first difference is line 4: 'd'"),
        (b"a\r\nb\r\nc\r\n", "a\nX\n", "first difference is line 2: 'b'"),
        (b"a\nb", "b\nc", "Its beginning is at line 2, but the file ends before it does"),
        (b"zzz\n", "hello world", "No line is like it"),
        (b"a\n", "\n\n\n", "white space only"),
        (b"a\nb\n", "a\r\nb\r\n", "there, line 1: the file has LF line endings, old has CRLF"),
        (b"z\r\na\r\nb\n", "a\nb\n", "there, line 2: the file has both LF and CRLF line endings"),
        (b"line two\n", "line one", "new is there, line 1: perhaps this edit was made before"),
    ],
)  # fmt: skip
async def test_text_that_is_not_there_is_told_with_what_is(
    context: ToolContext, content: bytes, old: str, told: str
) -> None:
    put(context, content)
    failure = await refused(context, old, "line two")
    assert failure.kind == "old_not_found"
    assert told in failure.detail


async def test_the_nearest_line_of_a_huge_file_is_looked_for_within_bounds(context: ToolContext) -> None:
    put(context, b"\n".join(b"%d some line of a log that is long" % n for n in range(200_000)))
    failure = await refused(context, "some lime of a lag thot is lang", "x")
    assert failure.kind == "old_not_found"
    assert len(failure.detail) < 1_000


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        (b"import os\nimport sys\n", "import os\n", "import os\nimport sys\n"),
        (b"x\nx\n", "x\n", "x\nx\n"),
        (b"a(b)\na(b)\n", "b", "a(b)"),
    ],
)
async def test_an_addition_that_is_there_already_is_not_made_again(
    context: ToolContext, content: bytes, old: str, new: str
) -> None:
    """What a model asks for after it was told that the outcome of the first time is unknown."""
    put(context, content)
    for every in (False, True):
        assert (await refused(context, old, new, replace_all=every)).kind == "already_there"


async def test_an_addition_that_is_there_at_another_place_is_made(context: ToolContext) -> None:
    file = put(context, b"f(x)\nlog(f(x))\n")
    await change(context, "f(x)", "log(f(x))", replace_all=True)
    assert file.read_bytes() == b"log(f(x))\nlog(log(f(x)))\n"


@pytest.mark.parametrize(("content", "new"), [(b"a\r\n", "a\n"), (b"a\n", "a\r\n")])
async def test_the_same_text_is_no_change(context: ToolContext, content: bytes, new: str) -> None:
    put(context, content)
    if content == b"a\r\n":
        assert (await refused(context, "a\r\n", new)).kind == "no_change"
    else:
        assert (await refused(context, new, new)).kind == "no_change"


async def test_what_is_no_text_file_is_refused(context: ToolContext) -> None:
    put(context, b"a\x00b", "nul")
    put(context, b"text\n" * 3_000 + b"\x00", "late")
    put(context, bytes(range(1, 256)) * 40, "bytes")
    (context.cwd / "directory").mkdir()
    with open(context.cwd / "big", "wb") as file:
        file.truncate(edit.MAX_FILE_BYTES + 1)
    kinds = [
        (await refused(context, "t", "b", p)).kind for p in ("nul", "late", "bytes", "directory", "big", "no")
    ]
    assert kinds == ["binary_file"] * 3 + ["is_directory", "too_big", "not_found"]
    assert (await refused(context, "t", "b", "no/where")).kind == "not_found"


async def test_a_small_edit_cannot_make_a_huge_file(context: ToolContext) -> None:
    put(context, b"a" * 100)
    assert (await refused(context, "a", "b" * 1_000_000, replace_all=True)).kind == "too_big"


async def test_a_text_that_is_everywhere_is_counted_within_bounds(context: ToolContext) -> None:
    file = put(context, b"a" * 5_000_000)
    assert "at least 10000 times" in (await refused(context, "a", "b")).detail
    assert "Replaced 5000000 occurrences" in await change(context, "a", "b", replace_all=True)
    assert file.read_bytes() == b"b" * 5_000_000


@pytest.mark.parametrize("more", [{"old": ""}, {"old": "ü" * 500_001}, {"new": "\ud800"}, {"path": ""}])
def test_arguments_that_mean_nothing_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EditFileInput(**({"path": "f", "old": "a", "new": "b"} | more))


async def test_parallel_edits_of_one_file_all_last(context: ToolContext) -> None:
    file = put(context, b"".join(b"line %d;\n" % n for n in range(PARALLEL)))
    await asyncio.gather(*(change(context, f"line {n};", f"done {n};") for n in range(PARALLEL)))
    assert file.read_bytes() == b"".join(b"done %d;\n" % n for n in range(PARALLEL))


EDITOR = """
import asyncio, sys
from pathlib import Path
from roundturn.tool import ToolContext
from roundturn.tools.edit import EditFile, EditFileInput
async def main(cwd, first, count):
    for n in range(first, first + count):
        arguments = EditFileInput(path="f", old=f"line {n};", new=f"done {n};")
        await EditFile().execute(arguments, ToolContext(Path(cwd), f"call-{n}"))
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


async def test_edits_of_several_processes_all_last(context: ToolContext) -> None:
    file = put(context, b"".join(b"line %d;\n" % n for n in range(3 * PARALLEL)))
    editors = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", EDITOR, str(context.cwd), str(first), str(PARALLEL)
        )
        for first in (0, PARALLEL, 2 * PARALLEL)
    ]
    assert [await editor.wait() for editor in editors] == [0, 0, 0]
    assert file.read_bytes() == b"".join(b"done %d;\n" % n for n in range(3 * PARALLEL))


async def test_a_whole_write_does_not_get_lost_in_an_edit(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(context, b"one two\n")
    inside, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        inside.set()
        go_on.wait(10)
        return edit_replaced(*given)

    edit_replaced = edit.replaced
    monkeypatch.setattr(edit, "replaced", slow)
    editing = asyncio.create_task(change(context, "two", "2"))
    await asyncio.to_thread(inside.wait, 10)
    writing = asyncio.create_task(WriteFile().execute(WriteFileInput(path="f", content="written\n"), context))
    done, _ = await asyncio.wait({writing}, timeout=0.2)
    assert not done
    go_on.set()
    await asyncio.gather(editing, writing)
    assert file.read_bytes() == b"written\n"


async def test_a_change_by_somebody_who_takes_no_lock_is_seen_and_kept(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(context, b"one two\n")
    tries: list[bytes] = []

    def meanwhile(arguments: EditFileInput, content: bytes) -> tuple[bytes, str]:
        tries.append(content)
        if len(tries) == 1:
            file.write_bytes(b"two ONE\n")  # the same length, in place, within a clock tick
        return edit_replaced(arguments, content)

    edit_replaced = edit.replaced
    monkeypatch.setattr(edit, "replaced", meanwhile)
    await change(context, "two", "2")
    assert file.read_bytes() == b"2 ONE\n"
    assert len(tries) == 2


async def test_a_file_that_keeps_changing_is_left_alone(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(context, b"0 two\n")

    def meanwhile(arguments: EditFileInput, content: bytes) -> tuple[bytes, str]:
        file.write_bytes(b"%d two\n" % (int(content.split()[0]) + 1))
        return content, ""

    monkeypatch.setattr(edit, "replaced", meanwhile)
    with pytest.raises(ToolFailed) as failure:
        await change(context, "two", "2")
    assert failure.value.kind == "changed_meanwhile"
    assert file.read_bytes() == b"3 two\n"


async def test_a_directory_that_stays_locked_is_told(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "LOCK_S", 0.05)
    put(context, b"a\n")
    descriptor = os.open(context.cwd, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert (await refused(context, "a", "b")).kind == "busy"
    finally:
        os.close(descriptor)
    await change(context, "a", "b")


async def test_where_directories_cannot_be_locked_an_edit_is_still_checked(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(replacement.fcntl, "flock", cannot)
    file = put(context, b"a\n")
    await change(context, "a", "b")
    assert file.read_bytes() == b"b\n"


async def test_a_cancelled_edit_changes_nothing_afterwards(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(context, b"a\n")
    inside, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        inside.set()
        go_on.wait(10)
        return edit_replaced(*given)

    edit_replaced = edit.replaced
    monkeypatch.setattr(edit, "replaced", slow)
    editing = asyncio.create_task(change(context, "a", "b"))
    await asyncio.to_thread(inside.wait, 10)
    editing.cancel()
    done, _ = await asyncio.wait({editing}, timeout=0.1)
    assert not done, "the call ended before its thread"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await editing
    assert file.read_bytes() == b"a\n"


async def test_an_edit_that_cannot_be_written_leaves_the_old_content(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    put(context, b"a\n")
    monkeypatch.setattr(replacement.os, "fsync", full)
    failure = await refused(context, "a", "b")
    assert failure.kind == "write_failed"
    assert [p.name for p in context.cwd.iterdir()] == ["f"]


FLICKER = """
import asyncio, sys
from pathlib import Path
from roundturn.tool import ToolContext
from roundturn.tools.edit import EditFile, EditFileInput
async def main(cwd):
    while True:
        for old, new in ("ab", "ba"):
            arguments = EditFileInput(path="f", old=old, new=new, replace_all=True)
            await EditFile().execute(arguments, ToolContext(Path(cwd), "call"))
asyncio.run(main(sys.argv[1]))
"""


async def test_a_killed_editor_leaves_the_old_or_the_new_content_and_no_lock(context: ToolContext) -> None:
    contents = {letter * 500_000 for letter in (b"a", b"b")}
    for _ in range(4):
        file = put(context, b"a" * 500_000)
        editor = subprocess.Popen([sys.executable, "-c", FLICKER, str(context.cwd)])
        deadline = time.monotonic() + 30
        while file.read_bytes()[:1] == b"a":
            assert time.monotonic() < deadline, "it changed nothing"
        editor.kill()
        editor.wait()
        assert file.read_bytes() in contents
    file.write_bytes(b"line\n")
    await change(context, "line", "done")


@requirement("X-12")
async def test_a_hard_link_elsewhere_keeps_its_content(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "workspace" / "original").write_text("theirs")
    (context.cwd / "f").hardlink_to(tmp_path / "workspace" / "original")
    await change(context, "theirs", "mine")
    assert (tmp_path / "workspace" / "original").read_text() == "theirs"
