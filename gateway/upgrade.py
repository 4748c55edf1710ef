"""Whether the store is there, and bringing it to the version that this program needs."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from roundturn.settings import Settings
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade


@dataclass(frozen=True)
class Upgraded:
    """`path` is None for a store that is no file, `before` for one that was empty."""

    path: Path | None
    before: str | None
    after: str


def store_path(url: str) -> Path | None:
    """None for a store that is no file; what is wrong with a URL is said by whoever opens it."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return None
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(parsed.database or "").absolute() if is_file else None


def missing_store(settings: Settings) -> Path | None:
    """The directory in which a SQLite store should be and is not; opening it would only make an empty file."""
    path = store_path(settings.store_url)
    if path is None:
        return None
    try:
        return None if path.stat().st_size else path.parent
    except (FileNotFoundError, NotADirectoryError):
        return path.parent
    except OSError:  # not ours to look at: opening it says so
        return None


async def upgrade_store(url: str, busy_s: float) -> Upgraded:
    """Opens the store for this only; waits up to `busy_s` for a lock. Raises `Unavailable`, `ConfigurationError`."""
    database = Database(url, busy_s)
    try:
        before, after = await upgrade(database)
    finally:
        await database.close()
    return Upgraded(Path(database.path) if database.path else None, before, after)
