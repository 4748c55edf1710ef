"""Which agents the workers of a home know, as far as this process can tell."""

import difflib
import json
import os
from contextlib import suppress

from roundturn.agents import load_agents
from roundturn.errors import ConfigurationError, UsageError
from roundturn.settings import DEV_FILE, Settings

LIKENESS = 0.5


def doubt_about(name: str, settings: Settings) -> str:
    """A line to say about an agent that is unknown here and may be known to a worker; empty for one that is known.

    Raises `UsageError` when the worker is that of a `roundturn dev` on this home, which has told which it knows.
    """
    own: list[str] = []
    with suppress(ConfigurationError):  # these settings are not the worker's
        own = sorted(load_agents(settings.agents_dir))
    of_dev = _of_dev(settings)
    known = own if of_dev is None else of_dev
    if name in own or name in known:
        return ""
    near = difflib.get_close_matches(name[:64].lower(), known, 1, LIKENESS)
    hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(known)}"
    if of_dev is not None:
        raise UsageError(f"there is no agent named {name}", hint)
    return f"no agent named {name} is known to the settings of this shell ({hint}); its worker may know it"


def _of_dev(settings: Settings) -> list[str] | None:
    """None where no dev runs whose addresses these are: then the worker is somebody else's."""
    try:
        found = json.loads((settings.home / DEV_FILE).read_text())
        os.kill(int(found["pid"]), 0)
        is_ours = found["settings"]["temporal_address"] == settings.temporal_address
        return list(found["agents"]) if is_ours else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
