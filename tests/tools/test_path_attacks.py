"""Whatever path a model writes, no file tool reads or changes anything outside the action directory or protected."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from roundturn.errors import ToolFailed
from roundturn.tool import BaseTool, ToolContext
from roundturn.tools import BUILTIN
from roundturn.tools.edit import EditFile, EditFileInput
from roundturn.tools.files import ReadFile, ReadFileInput, WriteFile, WriteFileInput
from roundturn.tools.grep import Grep, GrepInput
from roundturn.tools.listing import ListFiles, ListFilesInput
from tests.requirements import requirement
from tests.tools.test_paths import Swapper

CANARY = "canary-8d1f"
Use = Callable[[str, ToolContext], Awaitable[str]]


async def read_file(path: str, context: ToolContext) -> str:
    return (await ReadFile().execute(ReadFileInput(path=path), context)).output


async def write_file(path: str, context: ToolContext) -> str:
    return (await WriteFile().execute(WriteFileInput(path=path, content="mine"), context)).output


async def edit_file(path: str, context: ToolContext) -> str:
    arguments = EditFileInput(path=path, old="c", new="mine", replace_all=True)
    return (await EditFile().execute(arguments, context)).output


async def list_files(path: str, context: ToolContext) -> str:
    return (await ListFiles().execute(ListFilesInput(path=path, depth=9), context)).output


async def grep(path: str, context: ToolContext) -> str:
    return (await Grep().execute(GrepInput(pattern=".", path=path), context)).output


USES: dict[str, Use] = {
    "read_file": read_file,
    "write_file": write_file,
    "edit_file": edit_file,
    "list_files": list_files,
    "grep": grep,
}


def test_every_tool_of_the_category_is_attacked() -> None:
    tools: list[type[BaseTool]] = [tool for tool in BUILTIN.values() if tool.category == "files"]
    assert {tool.name for tool in tools} == set(USES)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolContext]:
    """An action directory full of traps; canaries outside it and in protected corners of it."""
    action, home, outside = tmp_path / "action", tmp_path / "home", tmp_path / "outside"
    for directory in (action / "src", action / "internal" / "deep", home, outside / "below"):
        directory.mkdir(parents=True)
    for directory in (home, outside, outside / "below", action / "internal", action / "internal" / "deep"):
        (directory / CANARY).write_text(f"content {CANARY}\n")
    (action / "src" / "a.txt").write_text("plain\n")
    for name, target in {
        "link_out": outside, "link_file": outside / CANARY, "link_dangling": outside / "not_there", "link_in": "src",
        "link_loop": "link_loop", "link_home": "../home", "link_internal": "internal", "link_proc": "/proc/self",
        "src/link_up": "..", "link_root": "/", "link_dev": "/dev",
    }.items():  # fmt: skip
        (action / name).symlink_to(target)
    os.mkfifo(action / "fifo")
    monkeypatch.chdir(action)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        yield ToolContext(action, "call-1", (home, action / "internal", action / "Spät", action / "Absent"))


def tree(directory: Path) -> dict[str, str]:
    """Kind, mode and content of all that is there; a change of any shows."""
    found = {}
    for path in sorted(directory.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        target = os.readlink(path) if path.is_symlink() else ""
        found[str(path)] = hashlib.sha256(f"{state.st_mode} {target}".encode() + content).hexdigest()
    return found


REFUSED = [
    pytest.param("/", id="root"),
    pytest.param("..", id="the parent"),
    pytest.param("../", id="the parent with a slash"),
    pytest.param("../outside/{canary}", id="up and over"),
    pytest.param("../home/{canary}", id="the home, relative"),
    pytest.param("{tmp}/home/{canary}", id="the home, absolute"),
    pytest.param("{tmp}/outside/{canary}", id="outside, absolute"),
    pytest.param("{tmp}/action/../outside/{canary}", id="absolute and up"),
    pytest.param("{tmp}/action2", id="a sibling with the same beginning"),
    pytest.param("{tmp}", id="above"),
    pytest.param("src/../../outside/{canary}", id="up from below"),
    pytest.param("src/../src/a.txt", id="up and down again"),
    pytest.param("./.././outside/{canary}", id="dots between"),
    pytest.param("src//..//..//outside//{canary}", id="doubled slashes"),
    pytest.param("nothing/../../outside/{canary}", id="up from a missing directory"),
    pytest.param("//etc/passwd", id="two slashes"),
    pytest.param("/etc/passwd", id="absolute"),
    pytest.param("/proc/self/environ", id="proc"),
    pytest.param("/proc/self/cwd/src/a.txt", id="proc and back in"),
    pytest.param("/proc/self/root/etc/passwd", id="proc root"),
    pytest.param("/dev/null", id="a device"),
    pytest.param("/dev/fd/0", id="a descriptor"),
    pytest.param("~", id="home"),
    pytest.param("~/.ssh/id_rsa", id="below home"),
    pytest.param("~root/.bashrc", id="home of root"),
    pytest.param("file:///etc/passwd", id="a file URL"),
    pytest.param("file://{tmp}/outside/{canary}", id="a file URL to a file that is there"),
    pytest.param("FILE://localhost/etc/passwd", id="a file URL in capitals"),
    pytest.param("https://example.org/x", id="a URL"),
    pytest.param("link_out", id="a link to a directory"),
    pytest.param("link_out/", id="the same with a slash"),
    pytest.param("link_out/.", id="the same with a dot"),
    pytest.param("link_out/{canary}", id="a file through a link"),
    pytest.param("link_out/below/{canary}", id="a file below a link"),
    pytest.param("link_out/new", id="a new file through a link"),
    pytest.param("link_file", id="a link to a file"),
    pytest.param("link_file/", id="a link to a file with a slash"),
    pytest.param("link_dangling", id="a dangling link"),
    pytest.param("link_in/a.txt", id="a link that stays inside"),
    pytest.param("link_loop", id="a link to itself"),
    pytest.param("link_home/{canary}", id="the home through a link"),
    pytest.param("link_internal/{canary}", id="a protected corner through a link"),
    pytest.param("link_proc/environ", id="proc through a link"),
    pytest.param("link_root/etc/passwd", id="the root through a link"),
    pytest.param("link_dev/null", id="a device through a link"),
    pytest.param("src/link_up/src/a.txt", id="a link upwards"),
    pytest.param("fifo", id="a pipe"),
    pytest.param("fifo/x", id="below a pipe"),
    pytest.param("socket", id="a socket"),
    pytest.param("src/a.txt/x", id="below a file"),
    pytest.param("internal", id="a protected corner"),
    pytest.param("internal/", id="the same with a slash"),
    pytest.param("internal/.", id="the same with a dot"),
    pytest.param("./internal//.//deep/./{canary}", id="the same with noise"),
    pytest.param("internal/{canary}", id="a file in it"),
    pytest.param("internal/{canary}/", id="a file in it with a slash"),
    pytest.param("internal/deep/{canary}", id="a file further in"),
    pytest.param("internal/new", id="a new file in it"),
    pytest.param("internal/deep/new/er", id="a new directory in it"),
    pytest.param("{tmp}/action/internal/{canary}", id="the same, absolute"),
    pytest.param("Absent/x", id="protected, not there yet"),
    pytest.param("ABSENT/x", id="the same in capitals"),
    pytest.param("absent", id="the same in small letters"),
    pytest.param("Sp\u00e4t/x", id="protected, not there yet, NFC"),
    pytest.param("Spa\u0308t/x", id="the same in NFD"),
    pytest.param("spA\u0308T/x", id="the same in NFD and in other letters"),
    pytest.param("a\x00b", id="NUL"),
    pytest.param("src/a.txt\x00.png", id="NUL before an ending"),
    pytest.param("src/a.txt\n", id="a new line at the end"),
    pytest.param("a\nb", id="a new line"),
    pytest.param("a\r\nb", id="a CRLF"),
    pytest.param("a\x1b[2Jb", id="an escape sequence"),
    pytest.param("a\x85b", id="a C1 control"),
    pytest.param("x" * 256, id="a name of 256 bytes"),
    pytest.param("ü" * 128, id="a name of 256 bytes in 128 letters"),
    pytest.param("ü/" * 1_400 + "y", id="a path of more than 4,096 bytes"),
]


def filled(path: str, tmp_path: Path) -> str:
    return path.replace("{tmp}", str(tmp_path)).replace("{canary}", CANARY)


@requirement("X-12", "P134", "T-11")
@pytest.mark.parametrize("tool", USES)
@pytest.mark.parametrize("attack", REFUSED)
async def test_the_path_is_refused_by_every_file_tool(
    context: ToolContext, tmp_path: Path, attack: str, tool: str
) -> None:
    path, before = filled(attack, tmp_path), tree(tmp_path)
    try:
        with pytest.raises(ToolFailed) as refusal:
            await USES[tool](path, context)
    finally:
        assert tree(tmp_path) == before
    assert refusal.value.kind in ("path_refused", "not_found")
    assert refusal.value.kind == "path_refused" or (tool != "write_file" and "link" not in path)
    assert f"content {CANARY}" not in refusal.value.detail
    assert refusal.value.detail.isprintable()


@requirement("X-12", "P134")
@pytest.mark.parametrize("tool", USES)
@pytest.mark.parametrize(
    "path", ["", "a\udc80b", "x" * 4_097], ids=["empty", "a lone surrogate", "very long"]
)
async def test_what_cannot_be_a_path_does_not_reach_a_file_tool(
    context: ToolContext, tmp_path: Path, path: str, tool: str
) -> None:
    before = tree(tmp_path)
    with pytest.raises(ValidationError):
        await USES[tool](path, context)
    assert tree(tmp_path) == before


# On this file system these are ordinary names of their own, which lead nowhere else.
LITERAL = [
    pytest.param("internal ", id="a space behind"),
    pytest.param(" internal", id="a space before"),
    pytest.param("internal .", id="a space and a dot behind"),
    pytest.param("internal...", id="dots behind"),
    pytest.param("...", id="three dots"),
    pytest.param("..\\outside\\{canary}", id="backslashes and up"),
    pytest.param("src\\..\\..\\outside", id="backslashes"),
    pytest.param("\\\\server\\share", id="a share"),
    pytest.param("C:\\Windows", id="a drive"),
    pytest.param("%2e%2e/outside/{canary}", id="percent signs"),
    pytest.param("..%2foutside", id="percent signs after dots"),
    pytest.param("\uff0e\uff0e/outside/{canary}", id="full-width dots"),
    pytest.param("..\u2215outside", id="a slash that is none"),
    pytest.param("int\u0435rnal/{canary}", id="a Cyrillic letter"),
    pytest.param("inter\u200bnal/{canary}", id="a zero-width space"),
    pytest.param("$HOME/{canary}", id="a variable"),
    pytest.param("$(cat ../outside/{canary})", id="a command"),
    pytest.param("inter*", id="a glob"),
    pytest.param("./~/x", id="a tilde below"),
    pytest.param("-rf", id="an option"),
    pytest.param("con", id="a device of another system"),
]


@requirement("X-12", "P134")
@pytest.mark.parametrize("tool", USES)
@pytest.mark.parametrize("name", LITERAL)
async def test_a_name_that_only_looks_dangerous_leads_nowhere_else(
    context: ToolContext, tmp_path: Path, name: str, tool: str
) -> None:
    def guarded() -> dict[str, str]:
        places = ("home", "outside", "action/internal", "action/src")
        return {path: state for place in places for path, state in tree(tmp_path / place).items()}

    before, beside = guarded(), sorted(os.listdir(tmp_path))
    try:
        said = await USES[tool](filled(name, tmp_path), context)
    except ToolFailed as failure:
        said = failure.detail
    assert guarded() == before
    assert sorted(os.listdir(tmp_path)) == beside
    assert f"content {CANARY}" not in said
    assert said.startswith("Created") == (tool == "write_file")


@requirement("X-12")
@pytest.mark.parametrize("tool", ["list_files", "grep"])
async def test_a_walk_over_everything_meets_no_canary(context: ToolContext, tool: str) -> None:
    said = await USES[tool](".", context)
    assert CANARY not in said
    assert "a.txt" in said
    assert "1 protected, not shown" in said


@requirement("X-12")
@pytest.mark.parametrize("tool", USES)
async def test_an_action_directory_inside_a_protected_one_is_of_no_use(tmp_path: Path, tool: str) -> None:
    (tmp_path / "home" / "action").mkdir(parents=True)
    context = ToolContext(tmp_path / "home" / "action", "call-1", (tmp_path / "home",))
    with pytest.raises(ToolFailed, match="ask the operator"):
        await USES[tool]("x", context)
    assert list((tmp_path / "home" / "action").iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("tool", USES)
async def test_kernel_trees_are_closed_even_to_an_action_directory_above_them(tool: str) -> None:
    for path in ("proc/self/environ", "/proc/1/mem", "dev/null", "sys/kernel"):
        with pytest.raises(ToolFailed) as refusal:
            await USES[tool](path, ToolContext(Path("/"), "call-1"))
        assert refusal.value.kind == "path_refused"


@requirement("X-12")
@pytest.mark.parametrize("tool", USES)
async def test_a_protected_directory_is_known_by_identity_whatever_its_name(
    tmp_path: Path, tool: str
) -> None:
    (tmp_path / "action" / "state").mkdir(parents=True)
    (tmp_path / "action" / "state" / "f").write_text(f"content {CANARY}")
    (tmp_path / "alias").symlink_to("action/state")
    context = ToolContext(tmp_path / "action", "call-1", (tmp_path / "alias",))
    with pytest.raises(ToolFailed, match="protected"):
        await USES[tool]("state/f", context)
    assert (tmp_path / "action" / "state" / "f").read_text() == f"content {CANARY}"


MOUNTED = """
import asyncio, sys
from pathlib import Path
from roundturn.errors import ToolFailed
from roundturn.tool import ToolContext
from tests.tools.test_path_attacks import USES
async def main(tmp):
    context = ToolContext(tmp / "action", "call-1", (tmp / "home",))
    for tool, use in USES.items():
        for path in ("mounted", "mounted/f"):
            try:
                print(tool, path, await use(path, context))
            except ToolFailed as refusal:
                assert refusal.kind == "path_refused", refusal
    print("walked", await USES["list_files"](".", context), await USES["grep"](".", context))
asyncio.run(main(Path(sys.argv[1])))
"""


@requirement("X-12")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a mount namespace of its own")
def test_the_home_mounted_a_second_time_is_still_the_home(tmp_path: Path) -> None:
    for directory in ("home", "action/mounted"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "home" / "f").write_text(CANARY)
    command = 'mount --bind "$1/home" "$1/action/mounted" || exit 77; exec "$0" -c "$2" "$1"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, sys.executable, str(tmp_path), MOUNTED],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mounting here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout
    assert done.stdout.startswith("walked"), done.stdout
    assert (tmp_path / "home" / "f").read_text() == CANARY


@pytest.mark.parametrize("tool", USES)
async def test_a_hard_link_shows_its_content_and_never_changes_it(tmp_path: Path, tool: str) -> None:
    """The documented limit: a hard link is an ordinary file, whoever else has it."""
    for directory in ("home", "action"):
        (tmp_path / directory).mkdir()
    (tmp_path / "home" / "f").write_text(f"content {CANARY}")
    (tmp_path / "action" / "f").hardlink_to(tmp_path / "home" / "f")
    context = ToolContext(tmp_path / "action", "call-1", (tmp_path / "home",))
    said = await USES[tool]("f" if tool != "list_files" else ".", context)
    assert (CANARY in said) == (tool in ("read_file", "grep"))
    assert (tmp_path / "home" / "f").read_text() == f"content {CANARY}"


@requirement("X-12", "T-11")
@pytest.mark.parametrize("tool", USES)
async def test_a_link_swapped_in_while_a_tool_is_on_its_way_is_not_gone_through(
    tmp_path: Path, tool: str
) -> None:
    action, outside = tmp_path / "action", tmp_path / "outside"
    (action / "door" / "in").mkdir(parents=True)
    (outside / "in").mkdir(parents=True)
    (outside / "in" / "f").write_text(f"content {CANARY}")
    (outside / "in" / CANARY).write_text("x")
    (action / "door" / "in" / "f").write_text("c inside\n")
    (action / "trap").symlink_to(outside)
    context = ToolContext(action, "call-1")
    before = tree(outside)
    path = {"list_files": "door", "grep": "door"}.get(tool, "door/in/f")
    rounds = {"went": 0, "refused": 0}
    with Swapper(action / "door", action / "trap") as swapper:
        while sum(rounds.values()) < 40 or min(rounds.values()) == 0 or swapper.swaps < 100:
            swapper.goes_on(0)
            try:
                said = await USES[tool](path, context)
                rounds["went"] += 1
            except ToolFailed as refusal:
                said = refusal.detail
                rounds["refused"] += 1
            assert CANARY not in said
    assert tree(outside) == before
