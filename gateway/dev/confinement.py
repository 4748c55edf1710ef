"""What `dev` says of commands that tools start: whether a sandbox holds them, as its worker has tried it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

from roundturn.glob import first_match
from roundturn.sandbox import Confinement
from roundturn.sandboxes import choose
from roundturn.settings import Settings
from roundturn.stores import files
from roundturn.tools import CONFINED

LOGGED = "worker.sandbox"
UNCONFINED = Confinement("none", hides_state=False, hides_network=False)


async def confinement(settings: Settings, logged: Sequence[str]) -> tuple[Confinement, str]:
    """And why. `logged`: what the worker has said since its start; a level that keeps it silent costs a second probe."""
    for line in reversed(logged):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            if found["event"] == LOGGED:
                kept = Confinement(found["name"], found["hides_state"], found["hides_network"])
                return kept, str(found["why"])
    if settings.sandbox == "none":
        return UNCONFINED, ""
    chosen, why = await asyncio.to_thread(choose, settings.sandbox, settings.home, files(settings.store_url))
    return chosen.confinement, why


def starts_processes(settings: Settings) -> list[str]:
    """The tools that do, of those which the operator turned on."""
    return [name for name in CONFINED if first_match(settings.privileged_tools, name)]


def told(tools: Sequence[str], settings: Settings, kept: Confinement, why: str) -> tuple[bool, str]:
    """Whether all is well, and the line that says so."""
    names = " and ".join(tools)
    if kept.is_complete:
        return (
            True,
            f"{kept.name} holds {names}: no network, nothing to change outside of the action directory",
        )
    if settings.sandbox == "bwrap":
        return False, f"commands of {names} are refused: {why}"
    because = 'sandbox = "none"' if settings.sandbox == "none" else why
    return False, f"{names} asks a person every time: no sandbox holds it ({because})"
