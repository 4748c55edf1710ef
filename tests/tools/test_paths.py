"""A path that a model wrote leads into the action directory or nowhere."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from roundturn.errors import ToolFailed
from roundturn.tool import ToolContext
from roundturn.tools.paths import confined_place, existing, open_confined
from tests.requirements import requirement

RACES = 400


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    """An action directory full of traps, its workspace beside it and a protected corner inside it."""
    action, workspace, outside = tmp_path / "action", tmp_path / "workspace", tmp_path / "outside"
    for directory in (action / "src", action / "internal" / "deep", workspace, outside):
        directory.mkdir(parents=True)
    for file in (
        action / "src" / "a.txt",
        workspace / "secret",
        outside / "secret",
        action / "internal" / "s",
    ):
        file.write_text(f"in {file.parent.name}")
    (action / "link_out").symlink_to(outside)
    (action / "link_file").symlink_to(outside / "secret")
    (action / "link_dangling").symlink_to(outside / "not_there")
    (action / "link_in").symlink_to("src")
    (action / "link_loop").symlink_to("link_loop")
    (action / "link_workspace").symlink_to("../workspace")
    (action / "src" / "link_up").symlink_to("..")
    (action / "link_proc").symlink_to("/proc/self")
    os.mkfifo(action / "fifo")
    return ToolContext(
        action, "call-1", (workspace, action / "internal", action / "Absent", tmp_path / "alias" / "later")
    )


ATTACKS = [
    pytest.param("", id="empty"),
    pytest.param("/", id="root"),
    pytest.param("..", id="the parent"),
    pytest.param("../outside/secret", id="up and over"),
    pytest.param("../workspace/secret", id="the workspace, relative"),
    pytest.param("{tmp}/workspace/secret", id="the workspace, absolute"),
    pytest.param("link_workspace/secret", id="the workspace through a link"),
    pytest.param("src/../../workspace/secret", id="up from below"),
    pytest.param("src/../src/a.txt", id="up and down again"),
    pytest.param("./.././outside/secret", id="dots between"),
    pytest.param("src//..//..//outside", id="doubled slashes"),
    pytest.param("nothing/../../outside/secret", id="up from a missing directory"),
    pytest.param("{tmp}/action/../outside/secret", id="absolute and up"),
    pytest.param("{tmp}/action2/x", id="a sibling with the same beginning"),
    pytest.param("{tmp}", id="above the action directory"),
    pytest.param("//etc/passwd", id="two slashes"),
    pytest.param("/etc/passwd", id="absolute"),
    pytest.param("/proc/self/environ", id="proc"),
    pytest.param("/proc/self/cwd/src/a.txt", id="proc and back in"),
    pytest.param("/dev/null", id="a device"),
    pytest.param("/dev/fd/0", id="a descriptor"),
    pytest.param("link_proc/environ", id="proc through a link"),
    pytest.param("~", id="home"),
    pytest.param("~/.ssh/id_rsa", id="below home"),
    pytest.param("~root/.bashrc", id="home of root"),
    pytest.param("link_out/secret", id="through a link to a directory"),
    pytest.param("link_out/new", id="a new file through a link"),
    pytest.param("link_file", id="a link to a file"),
    pytest.param("link_dangling", id="a dangling link"),
    pytest.param("link_dangling/x", id="below a dangling link"),
    pytest.param("link_in/a.txt", id="a link that stays inside"),
    pytest.param("link_loop", id="a link to itself"),
    pytest.param("src/link_up/src/a.txt", id="a link upwards"),
    pytest.param("fifo", id="a pipe"),
    pytest.param("fifo/x", id="below a pipe"),
    pytest.param("socket", id="a socket"),
    pytest.param("src/a.txt/x", id="below a file"),
    pytest.param("a\x00b", id="NUL"),
    pytest.param("src/a.txt\x00.png", id="NUL before an ending"),
    pytest.param("a\nb", id="a new line"),
    pytest.param("a\x1b[2Jb", id="an escape sequence"),
    pytest.param("a\x85b", id="a C1 control"),
    pytest.param("a\udc80b", id="a lone surrogate"),
    pytest.param("x" * 1_000, id="a name of 1,000 characters"),
    pytest.param("ü" * 128, id="a name of 256 bytes"),
    pytest.param("x/" * 2_100 + "y", id="a path of 4,201 bytes"),
    pytest.param("internal", id="the protected directory"),
    pytest.param("internal/s", id="a file in it"),
    pytest.param("internal/new", id="a new file in it"),
    pytest.param("internal/deep/new/er", id="a new directory in it"),
    pytest.param("{tmp}/action/internal/s", id="the protected directory, absolute"),
    pytest.param("Absent/x", id="a protected directory that is not there yet"),
    pytest.param("absent/x", id="the same, as some file systems see it"),
]


@requirement("X-12", "P134", "T-11")
@pytest.mark.parametrize("create", [False, True], ids=["reading", "writing"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_refused_and_says_what_to_do(
    context: ToolContext, tmp_path: Path, attack: str, create: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(context.cwd)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        before = sorted(tmp_path.rglob("*"))
        path = attack.replace("{tmp}", str(tmp_path))
        with pytest.raises(ToolFailed) as refusal, confined_place(path, context, create=create) as place:
            existing(place, context)
        assert refusal.value.kind == "path_refused"
        assert ";" in refusal.value.detail or "ask the operator" in refusal.value.detail
        assert refusal.value.detail.isprintable()
        with pytest.raises((ToolFailed, FileNotFoundError)):
            open_confined(path, context)
    assert [p for p in sorted(tmp_path.rglob("*")) if p not in before] == []


@requirement("T-11", "X-12")
@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("src/a.txt", "src/a.txt"),
        ("./src//a.txt", "src/a.txt"),
        ("{tmp}/action/src/a.txt", "src/a.txt"),
        ("src/", "src"),
        ("new/directory/file", "new/directory/file"),
        ("..src/...", "..src/..."),
        ("./~name", "~name"),
        ("ünï cödé 漢字", "ünï cödé 漢字"),
        ("a%2f..%2fb", "a%2f..%2fb"),
        ("C:\\x", "C:\\x"),
        ("x" * 255, "x" * 255),
    ],
)
def test_a_path_inside_leads_to_itself(context: ToolContext, tmp_path: Path, path: str, below: str) -> None:
    wanted = context.cwd / below
    with confined_place(path.replace("{tmp}", str(tmp_path)), context, create=True) as place:
        assert place.name == wanted.name
        assert os.path.samestat(os.fstat(place.directory), wanted.parent.stat())


def test_the_action_directory_itself_is_no_file(context: ToolContext) -> None:
    with pytest.raises(ToolFailed, match="name a file inside"), confined_place(".", context):
        pass
    with pytest.raises(IsADirectoryError):
        open_confined(".", context)


def test_an_action_directory_behind_a_link_of_the_operator_works_by_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("x")
    (tmp_path / "alias").symlink_to("real")
    context = ToolContext(tmp_path / "alias", "call-1")
    for spelling in ("f", f"{tmp_path}/alias/f", f"{tmp_path}/real/f"):
        with open(open_confined(spelling, context)) as file:
            assert file.read() == "x"


@requirement("X-12")
def test_a_protected_directory_is_known_by_identity_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "action" / "state").mkdir(parents=True)
    (tmp_path / "other_name").symlink_to("action/state")
    context = ToolContext(tmp_path / "action", "call-1", (tmp_path / "other_name",))
    with (
        pytest.raises(ToolFailed, match="protected"),
        confined_place("state/ledger.db", context, create=True),
    ):
        pass


@requirement("X-12")
def test_an_action_directory_inside_a_protected_one_is_of_no_use(tmp_path: Path) -> None:
    (tmp_path / "workspace" / "action").mkdir(parents=True)
    context = ToolContext(tmp_path / "workspace" / "action", "call-1", (tmp_path / "workspace",))
    with pytest.raises(ToolFailed, match="ask the operator"):
        open_confined("x", context)


def test_a_missing_action_directory_is_the_operators_to_mend(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="ask the operator"):
        open_confined("x", ToolContext(tmp_path / "gone", "call-1"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_kernel_trees_are_closed_even_when_the_action_directory_is_above_them() -> None:
    for path in ("proc/self/environ", "/proc/1/mem", "dev/null", "sys/kernel"):
        with pytest.raises(ToolFailed) as refusal:
            open_confined(path, ToolContext(Path("/"), "call-1"))
        assert refusal.value.kind == "path_refused"


class Swapper(threading.Thread):
    """Puts `trap` in the place of `door` and takes it back, until the block ends or its time is up."""

    def __init__(self, door: Path, trap: Path) -> None:
        super().__init__()
        self.door, self.trap, self.aside = door, trap, door.with_name("aside")
        self.swaps, self.stop, self.deadline = 0, threading.Event(), time.monotonic() + 10

    def run(self) -> None:
        while not self.stop.is_set():
            self.door.rename(self.aside)
            self.hang(self.trap)
            self.door.rename(self.trap)
            self.hang(self.aside)
            self.swaps += 1

    def hang(self, door: Path) -> None:
        """A writer may have made a new door in the gap; it goes out of the way."""
        while True:
            try:
                door.rename(self.door)
                return
            except OSError:
                self.door.rename(self.door.with_name(f"made_{self.swaps}_{time.monotonic_ns()}"))

    def goes_on(self, tries: int) -> bool:
        assert time.monotonic() < self.deadline, "the race did not happen"
        return tries < RACES or self.swaps < RACES

    def __enter__(self) -> "Swapper":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()


@requirement("X-12", "T-11")
@pytest.mark.parametrize("target", ["door/secret", "door"], ids=["a directory", "a file"])
def test_a_link_swapped_in_after_the_check_is_never_read_through(tmp_path: Path, target: str) -> None:
    action, outside = tmp_path / "action", tmp_path / "outside"
    for directory in (action, outside):
        directory.mkdir()
    (outside / "secret").write_text("outside")
    if target == "door":
        (action / "door").write_text("inside")
        (action / "trap").symlink_to(outside / "secret")
    else:
        (action / "door").mkdir()
        (action / target).write_text("inside")
        (action / "trap").symlink_to(outside)
    context = ToolContext(action, "call-1")
    read = {"inside": 0, "refused": 0}
    with Swapper(action / "door", action / "trap") as swapper:
        while swapper.goes_on(sum(read.values())) or min(read.values()) == 0:
            try:
                with open(open_confined(target, context)) as file:
                    read[file.read()] += 1  # "outside" would be a KeyError
            except (ToolFailed, FileNotFoundError):
                read["refused"] += 1


@requirement("X-12")
def test_a_link_swapped_in_after_the_check_is_never_written_through(tmp_path: Path) -> None:
    action, outside = tmp_path / "action", tmp_path / "outside"
    outside.mkdir()
    (action / "door").mkdir(parents=True)
    (action / "trap").symlink_to(outside)
    context = ToolContext(action, "call-1")
    tries = made = 0
    with Swapper(action / "door", action / "trap") as swapper:
        while swapper.goes_on(tries) or made == 0:
            tries += 1
            try:
                with confined_place(f"door/new{tries}/file", context, create=True) as place:
                    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=place.directory))
                    made += 1
            except (ToolFailed, FileNotFoundError):
                continue
    assert list(outside.iterdir()) == []
