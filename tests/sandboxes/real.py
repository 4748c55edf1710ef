"""The real bubblewrap, where there is one that works."""

import shutil
import subprocess
from pathlib import Path

import pytest

from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.sandboxes.probe import fault


def bubblewrap(home: Path) -> Bubblewrap:
    """Skips the test, with the reason, where there are no namespaces to be had; ours that does not hold is a failure."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    plain = (program, "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--", "/bin/true")
    done = subprocess.run(plain, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"bubblewrap does not work on this machine: {done.stderr.strip()}")
    sandbox = Bubblewrap(Path(program), home)
    assert fault(sandbox, home) is None
    return sandbox
