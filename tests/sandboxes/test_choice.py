"""A sandbox is trusted for what its probe has seen, and where it is demanded nothing runs without it."""

import os
import shutil
from pathlib import Path

import pytest

from roundturn.sandbox import Command, SandboxRefused
from roundturn.sandboxes import choose
from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.sandboxes.none import Unconfined
from roundturn.tool import ToolContext
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement

BROKEN = {
    "fails": "#!/bin/sh\nexit 1\n",
    "succeeds and does nothing": "#!/bin/sh\nexit 0\n",
    "claims to have held": "#!/bin/sh\nexit 7\n",
    "is no program": "nonsense",
    "confines nothing": '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n',
    "keeps the network": '#!/bin/sh\nshift; exec @BWRAP --unshare-pid "$@"\n',
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def install(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("bwrap") or "bwrap"
    folder.mkdir()
    (folder / "bwrap").write_text(script.replace("@BWRAP", real))
    (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@requirement("X-03")
@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
async def test_a_broken_bwrap_refuses_every_command_where_it_is_demanded(
    script: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(script, tmp_path / "bin", monkeypatch)
    sandbox, found = choose("bwrap", home)
    assert not found.confinement.is_complete
    assert "bwrap cannot be used" in found.why
    tool = Bash(sandbox)
    assert tool.spec().approval == "always"
    with pytest.raises(SandboxRefused, match="bwrap cannot be used"):
        await tool.execute(BashInput(command="touch ran"), ToolContext(tmp_path, "c"))
    assert not (tmp_path / "ran").exists()


def test_auto_goes_on_without_it_and_hides_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox, found = choose("auto", home)
    assert isinstance(sandbox, Unconfined)
    assert "not installed" in found.why
    assert Bash(sandbox).spec().approval == "always"


@pytest.mark.parametrize("cwd", ["/", "/usr", "/proc/self", "/dev", "/run", "/etc/ssl", "/var/run"])
def test_the_system_is_no_action_directory(cwd: str, home: Path) -> None:
    with pytest.raises(SandboxRefused):
        Bubblewrap(Path("/usr/bin/bwrap"), home).confine(Command(("/bin/true",), Path(cwd), {}))


def test_a_state_directory_that_was_moved_away_is_noticed(home: Path, tmp_path: Path) -> None:
    sandbox = Bubblewrap(Path("/usr/bin/bwrap"), home)
    home.rename(tmp_path / "moved")
    home.mkdir()
    with pytest.raises(SandboxRefused, match="not the one"):
        sandbox.confine(Command(("/bin/true",), tmp_path, {}))
