"""The sandboxes, and the choice between them by what the operator wants and what a probe has seen."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from roundturn.sandbox import Sandbox, SandboxRefused
from roundturn.sandboxes.bwrap import PROGRAM, Bubblewrap
from roundturn.sandboxes.none import Refusing, Unconfined
from roundturn.sandboxes.probe import fault


def choose(
    wanted: Literal["auto", "bwrap", "none"], home: Path, outside: Sequence[Path] = ()
) -> tuple[Sandbox, str]:
    """And why it is this one. Blocks while the probe runs. `bwrap` demands it: where it does not hold, every command
    is refused.

    `home` is the state directory, `outside` are files of the state that are not in it.
    """
    if wanted == "none":
        return Unconfined(), "the settings want none"
    sandbox, wrong = _tried(home, outside)
    if sandbox is not None and wrong is None:
        return sandbox, "its probe held"
    why = f"{PROGRAM} cannot be used: {wrong}"
    return Refusing(why) if wanted == "bwrap" else Unconfined(), why


def _tried(home: Path, outside: Sequence[Path]) -> tuple[Sandbox | None, str | None]:
    program = shutil.which(PROGRAM)
    if program is None:
        return None, "it is not installed"
    try:
        sandbox = Bubblewrap(Path(program).absolute(), home, outside)
        return sandbox, fault(sandbox, home)
    except (SandboxRefused, OSError) as refused:
        return None, str(refused)
