"""A sandbox is trusted for what its probe has seen, and where it is demanded nothing runs without it."""

import os
import shutil
from pathlib import Path

import pytest

from roundturn.sandbox import Command, SandboxRefused
from roundturn.sandboxes import choose
from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.sandboxes.none import Unconfined
from roundturn.stores import files
from roundturn.tool import ToolContext
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement
from tests.sandboxes.real import bubblewrap

# Bubblewrap itself, without some of the options that it is given.
LOOSE = """#!/bin/bash
kept=(@FIRST)
while [ $# -gt 0 ]; do
    case "$1" in @LOST) shift 2 ;; *) kept+=("$1"); shift ;; esac
done
exec @BWRAP "${kept[@]}"
"""
BROKEN = {
    "fails": "#!/bin/sh\nexit 1\n",
    "succeeds and does nothing": "#!/bin/sh\nexit 0\n",
    "claims to have held": "#!/bin/sh\nexit 7\n",
    "is no program": "nonsense",
    "confines nothing": '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n',
    "keeps the network": '#!/bin/sh\nshift; exec @BWRAP --unshare-all --share-net "$@"\n',
    "filters no system calls": LOOSE.replace("@FIRST", "").replace("@LOST", "--seccomp"),
    "hides no files": LOOSE.replace("@FIRST", "--bind @TMP @TMP").replace(
        "@LOST", "--tmpfs | --size | --perms | --remount-ro"
    ),
}

WHY = {
    "succeeds and does nothing": "its probe ended with 0",
    "confines nothing": "it read a file of the state directory",
    "keeps the network": "it reached the network",
    "filters no system calls": "its system calls were not filtered",
    "hides no files": "it read a file of the state directory",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def install(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("bwrap") or "bwrap"
    folder.mkdir()
    (folder / "bwrap").write_text(script.replace("@BWRAP", real).replace("@TMP", str(folder.parent)))
    (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@requirement("X-03")
@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_bwrap_refuses_every_command_where_it_is_demanded(
    case: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "@BWRAP" in BROKEN[case]:
        bubblewrap(home)
    install(BROKEN[case], tmp_path / "bin", monkeypatch)
    sandbox, why = choose("bwrap", home)
    assert not sandbox.confinement.is_complete
    assert why.startswith(f"bwrap cannot be used: {WHY.get(case, '')}")
    tool = Bash(sandbox)
    assert tool.spec().approval == "always"
    with pytest.raises(SandboxRefused, match="bwrap cannot be used"):
        await tool.execute(BashInput(command="touch ran"), ToolContext(tmp_path, "c"))
    assert not (tmp_path / "ran").exists()


def test_auto_goes_on_without_it_and_hides_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox, why = choose("auto", home)
    assert isinstance(sandbox, Unconfined)
    assert "not installed" in why
    assert Bash(sandbox).spec().approval == "always"


@pytest.mark.parametrize("cwd", ["/", "/usr", "/proc/self", "/dev", "/run", "/etc/ssl", "/var/run"])
def test_the_system_is_no_action_directory(cwd: str, home: Path) -> None:
    with pytest.raises(SandboxRefused):
        Bubblewrap(Path("/usr/bin/bwrap"), home).confine(Command(("/bin/true",), Path(cwd), {}))


@requirement("X-12")
@pytest.mark.parametrize("cwd", ["/home", "/home/somebody", "{own}", "{own}/.."])
def test_a_home_directory_with_its_keys_is_no_action_directory(
    cwd: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "people" / "me"
    (own / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setattr(Path, "resolve", lambda path, strict=False: Path(os.path.normpath(path)))
    sandbox = Bubblewrap(Path("/usr/bin/bwrap"), home)
    with pytest.raises(SandboxRefused, match="shows a home directory"):
        sandbox.confine(Command(("/bin/true",), Path(cwd.replace("{own}", str(own))), {}))
    assert sandbox.confine(Command(("/bin/true",), own / "project", {})).cwd == own / "project"


@requirement("X-12")
def test_a_store_outside_of_the_home_is_in_no_action_directory(home: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "project").mkdir(parents=True)
    url = f"sqlite:///{tmp_path}/data/rows.db"
    assert [path.name for path in files(url)] == ["rows.db", "rows.db-wal", "rows.db-shm", "rows.db-journal"]
    assert files("postgresql+asyncpg://a:b@host/name") == ()
    sandbox = Bubblewrap(Path("/usr/bin/bwrap"), home, files(url))
    with pytest.raises(SandboxRefused, match="the store is in it"):
        sandbox.confine(Command(("/bin/true",), tmp_path / "data", {}))
    assert sandbox.confine(Command(("/bin/true",), tmp_path / "data" / "project", {}))
    within = Bubblewrap(Path("/usr/bin/bwrap"), home, [home / "roundturn.db"])
    assert within.confine(Command(("/bin/true",), tmp_path, {})), "the home is hidden, and it with the home"


def test_a_state_directory_that_was_moved_away_is_noticed(home: Path, tmp_path: Path) -> None:
    sandbox = Bubblewrap(Path("/usr/bin/bwrap"), home)
    home.rename(tmp_path / "moved")
    home.mkdir()
    with pytest.raises(SandboxRefused, match="not the one"):
        sandbox.confine(Command(("/bin/true",), tmp_path, {}))


@requirement("X-12")
def test_what_decides_about_tools_is_not_reached_by_a_link_that_a_command_could_replace(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / "conf").mkdir(parents=True)
    (project / "conf" / "prod.toml").touch()
    (project / "roundturn.toml").symlink_to("conf/prod.toml")
    (project / "v1" / "agents").mkdir(parents=True)
    (project / "current").symlink_to("v1")
    sandbox = Bubblewrap(Path("/usr/bin/bwrap"), home)
    for linked in (project / "roundturn.toml", project / "current" / "agents"):
        with pytest.raises(SandboxRefused, match="reached by a link"):
            sandbox.confine(Command(("/bin/true",), project, {}, hidden=(linked,)))
    for plain in (project / "v1" / "agents", project / "absent.toml", tmp_path):
        sandbox.confine(Command(("/bin/true",), project, {}, hidden=(plain,)))
