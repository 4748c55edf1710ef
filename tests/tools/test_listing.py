"""A listing shows what is there, safely and within bounds, and says what it does not show."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from roundturn.errors import ToolFailed
from roundturn.tool import Effect, Permission, ToolContext
from roundturn.tools import listing, walk
from roundturn.tools.listing import ListFiles, ListFilesInput
from roundturn.tools.paths import shown
from tests.requirements import requirement

HUGE = 100_000


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "action").mkdir()
    return ToolContext(tmp_path / "action", "call-1", (tmp_path / "action" / "internal",))


def put(context: ToolContext, *names: str) -> None:
    for name in names:
        (context.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (context.cwd / name).write_text(name)


async def page(context: ToolContext, path: str = ".", **more: Any) -> str:
    result = await ListFiles().execute(ListFilesInput(path=path, **more), context)
    assert not result.is_error
    assert len(result.output.encode()) <= 32 * 1024
    assert result.output.endswith("\n")
    return result.output


async def names(context: ToolContext, path: str = ".", **more: Any) -> list[str]:
    lines = (await page(context, path, **more)).splitlines()
    return [line[18:] for line in lines if not line.startswith(("...", "("))]


@requirement("T-17")
def test_listing_is_pure_and_brief() -> None:
    spec = ListFiles().spec()
    assert (spec.effect, spec.permission, spec.brief) == (Effect.PURE, Permission.READ, True)
    assert (spec.category, spec.family) == ("files", "files")
    assert ListFiles().is_read_only(ListFilesInput())


async def test_kinds_sizes_and_names_are_shown_in_order(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "b.txt", "a/deep", ".hidden")
    (context.cwd / "link").symlink_to("a")
    os.mkfifo(context.cwd / "pipe")
    monkeypatch.chdir(context.cwd)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert await page(context) == (
            "file           7  .hidden\n"
            "dir            -  a/\n"
            "file           5  b.txt\n"
            "link           -  link\n"
            "other          -  pipe\n"
            "other          -  sock\n"
        )


async def test_depth_limits_how_far_down_it_goes(context: ToolContext) -> None:
    put(context, "a/b/c/d", "a/x")
    assert await names(context) == ["a/"]
    assert await names(context, depth=2) == ["a/", "a/b/", "a/x"]
    assert await names(context, depth=32) == ["a/", "a/b/", "a/b/c/", "a/b/c/d", "a/x"]
    assert await names(context, "a/b", depth=2) == ["c/", "c/d"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["src/a.py", "src/in/b.py", "z.py"]),
        ("*.PY", ["src/a.py", "src/in/b.py", "z.py"]),
        ("src/*.py", ["src/a.py", "src/in/b.py"]),
        ("**/*.py", ["src/a.py", "src/in/b.py", "z.py"]),
        ("src/**/b.py", ["src/in/b.py"]),
        ("src/**/a.py", ["src/a.py"]),
        ("?.py", ["src/a.py", "src/in/b.py", "z.py"]),
        ("in", ["src/in/"]),
        ("[az].py", []),
    ],
)
async def test_a_glob_selects_by_name_or_by_path(context: ToolContext, glob: str, found: list[str]) -> None:
    put(context, "src/a.py", "src/in/b.py", "z.py", "z.txt")
    assert await names(context, depth=9, glob=glob) == found


async def test_nothing_is_said_to_be_nothing(context: ToolContext) -> None:
    assert await page(context) == "(nothing to show)\n"
    put(context, "a")
    assert await page(context, glob="*.py") == "(nothing of 1 entries is like *.py)\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (b"plain", "plain"),
        (b"two words", "two words"),
        ("ünï 漢字".encode(), "ünï 漢字"),
        (b"a\nfile         999  fake", '"a\\u000afile         999  fake"'),
        (b"a\x1b[2Jb", '"a\\u001b[2Jb"'),
        (b"a\xffb", '"a\\xffb"'),
        ("a\u00ffb".encode(), "aÿb"),
        ("a\u00a0b".encode(), '"a\\u00a0b"'),
        ("a\u202eb".encode(), '"a\\u202eb"'),
        ("a\U000e0001b".encode(), '"a\\U000e0001b"'),
        (b"a\\xffb", '"a\\\\xffb"'),
        (b' "a"', '" \\"a\\""'),
        (b'"a"', '"\\"a\\""'),
        (b"a ", '"a "'),
        (b"... 3 more", '"... 3 more"'),
        (b"-rf", "-rf"),
    ],
)
async def test_a_name_is_shown_as_one_line_that_stands_for_no_other(
    context: ToolContext, name: bytes, told: str
) -> None:
    (Path(os.fsdecode(os.fsencode(context.cwd) + b"/" + name))).write_bytes(b"12345")
    assert await page(context) == f"file           5  {told}\n"


def test_no_two_names_are_shown_alike() -> None:
    pieces = ["a", "\\", '"', " ", "\n", "\udcff", "\u00ff", "\\xff", "x", "ff", "\\u000a", "."]
    made = {"".join((a, b, c)) for a in pieces for b in pieces for c in pieces}
    assert len({shown(name) for name in made}) == len(made)


@requirement("X-12")
async def test_links_are_shown_and_never_followed(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "canary").write_text("x")
    (context.cwd / "out").symlink_to(tmp_path / "outside")
    (context.cwd / "loop").symlink_to(".")
    assert await page(context, depth=32) == "link           -  loop\nlink           -  out\n"


@requirement("X-12")
async def test_a_protected_directory_is_neither_shown_nor_entered_and_that_is_said(
    context: ToolContext,
) -> None:
    put(context, "a/b", "internal/canary")
    output = await page(context, depth=9)
    assert output == "dir            -  a/\nfile           3  a/b\n... 1 protected, not shown\n"


@requirement("X-12")
async def test_a_protected_directory_that_comes_later_is_known_by_its_name(tmp_path: Path) -> None:
    action = tmp_path / "action"
    action.mkdir()
    context = ToolContext(action, "call-1", (action / "Später",))
    put(context, "spa\u0308ter/canary")
    assert await page(context, depth=9) == "(nothing to show)\n... 1 protected, not shown\n"


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("huge")
    descriptor = os.open(directory, os.O_RDONLY)
    for n in range(HUGE):
        os.close(os.open(f"{n:06d}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    yield directory
    for entry in os.scandir(directory):
        os.unlink(entry.path)


async def test_a_huge_directory_is_shown_from_its_beginning_and_counted(
    huge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LIMIT_S", 60.0)  # of a busy machine
    context = ToolContext(huge, "call-1")
    output = await page(context, limit=3, depth=2)
    assert output == "".join(f"file           0  00000{n}\n" for n in range(3)) + (
        f"... at least {HUGE - 3} more; use glob or a directory further down\n"
    )
    assert await names(context, glob="09999?") == [f"09999{n}" for n in range(10)]


async def test_a_huge_directory_is_given_up_in_time(huge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LIMIT_S", 0.01)
    begin = time.monotonic()
    output = await page(ToolContext(huge, "call-1"))
    assert "not complete: it ended after 0.01 s" in output
    assert time.monotonic() - begin < 5


async def test_a_walk_ends_after_so_many_entries(huge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LIMIT_S", 60.0)
    monkeypatch.setattr(walk, "MAX_ENTRIES", 1_000)
    output = await page(ToolContext(huge, "call-1"), limit=1)
    assert "at least 999 more" in output
    assert "not complete: it ended after 1000 entries" in output


async def test_long_names_are_cut_at_the_size_of_an_output_and_counted(context: ToolContext) -> None:
    for n in range(300):
        put(context, f"{n:03d}" + "\u202e" * 80)
    output = await page(context, limit=1_000)
    lines = output.splitlines()
    assert (
        lines[-1]
        == f"... {300 - (len(lines) - 1)} more found, too long to show; name a directory further down"
    )


async def test_what_is_near_is_not_lost_to_what_is_deep(context: ToolContext) -> None:
    put(context, *(f"a/b/{n:03d}" for n in range(100)), "z")
    output = await page(context, depth=9, limit=50)
    assert {"a/", "a/b/", "z"} <= set(await names(context, depth=9, limit=50))
    assert "at least 53 more" in output


async def test_a_limit_that_is_reached_is_said(context: ToolContext) -> None:
    put(context, "a/b", "c")
    assert "perhaps more further down" in await page(context, depth=9, limit=2)
    assert "more" not in await page(context, limit=2)


@pytest.mark.parametrize(
    ("path", "kind"), [("no", "not_found"), ("no/where", "not_found"), ("f", "path_refused")]
)
async def test_what_is_no_directory_is_told(context: ToolContext, path: str, kind: str) -> None:
    put(context, "f", "nose/x")
    with pytest.raises(ToolFailed) as failure:
        await page(context, path)
    assert failure.value.kind == kind
    assert ("nose" in failure.value.detail) == (path == "no")


async def test_a_directory_that_vanishes_meanwhile_is_no_failure(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "a/x", "b/y", "c/z")
    (context.cwd / "outside").mkdir()
    descended = walk.paths.descended

    def vanishing(base: int, parts: tuple[str, ...], *rest: Any) -> Any:
        if parts == ("a",):
            (context.cwd / "a" / "x").unlink()
            (context.cwd / "a").rmdir()
        if parts == ("b",):
            (context.cwd / "b").rename(context.cwd / "b2")
            (context.cwd / "b").symlink_to("outside")
        return descended(base, parts, *rest)

    monkeypatch.setattr(walk.paths, "descended", vanishing)
    output = await page(context, depth=2)
    assert "c/z" in output
    assert "b/y" not in output
    assert "... 1 vanished meanwhile\n... 1 could not be entered, such as b\n" in output


async def test_a_deep_tree_is_walked_without_recursion_or_long_paths(context: ToolContext) -> None:
    at = os.open(context.cwd, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    output = await page(context, depth=32)
    assert output.startswith("dir            -  ddd")


async def test_a_cancelled_listing_leaves_no_thread_at_work(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, ended = threading.Event(), threading.Event()

    def slow(_arguments: Any, _context: Any, stopped: threading.Event) -> str:
        inside.set()
        if stopped.wait(10):
            ended.set()
        return ""

    monkeypatch.setattr(listing, "_list", slow)
    work = asyncio.create_task(page(context))
    await asyncio.to_thread(inside.wait, 10)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await asyncio.to_thread(ended.wait, 10)


@pytest.mark.parametrize("more", [{"depth": 0}, {"depth": 33}, {"limit": 0}, {"limit": 1_001}, {"path": ""}])
def test_bounds_that_mean_nothing_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ListFilesInput(**more)


async def test_no_descriptor_is_left_open(context: ToolContext) -> None:
    put(context, "a/b/c", "d")
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        await page(context, depth=9, limit=1)
        await page(context, depth=9)
        with pytest.raises(ToolFailed):
            await page(context, "no")
    assert len(os.listdir("/dev/fd")) <= before
