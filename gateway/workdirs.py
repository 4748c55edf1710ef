"""Which directory a person may give to a session to work in."""

from pathlib import Path

from roundturn.errors import UsageError
from roundturn.settings import WORK, Settings


def usable(workdir: Path, settings: Settings) -> Path:
    """Its real path. Raises `UsageError`.

    The home holds the store, logs and blobs. A directory around it may be used: tools refuse the home in it.
    """
    work = settings.home / WORK
    if not workdir.is_dir():
        raise UsageError(f"{workdir} is not a directory", "create it or choose another --workdir")
    found, home = workdir.resolve(), settings.home.resolve()
    if found.is_relative_to(home) and not found.is_relative_to(work.resolve()):
        raise UsageError(
            f"{workdir} is inside {home}, where the state of Roundturn lives",
            f"choose a --workdir outside of it or under {work}, or leave it out",
        )
    if settings.work_roots and not any(found.is_relative_to(root) for root in settings.work_roots):
        allowed = ", ".join(map(str, settings.work_roots))
        raise UsageError(
            f"{workdir} is outside of the work roots", f"choose a --workdir under one of: {allowed}"
        )
    return found
