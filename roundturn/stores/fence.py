"""The fence: every write on behalf of a turn asks first how the turn stands, with its row locked."""

from typing import Any

from sqlalchemy import Row, Select, bindparam, select

from roundturn.mode import RunMode
from roundturn.stores.engine import Tx
from roundturn.stores.tables import sessions, turns

STANDING: Select[Any] = (
    select(
        turns.c.run,
        turns.c.session,
        turns.c.generation,
        turns.c.state,
        turns.c.stop_origin,
        sessions.c.generation.label("current"),
        sessions.c.snapshot,
        sessions.c.action_dir,
        sessions.c.entry,
        sessions.c.depth,
        sessions.c.run_mode,
    )
    .join(sessions, sessions.c.id == turns.c.session)
    .where(turns.c.id == bindparam("turn"))
)
HOLD = select(turns.c.id).where(turns.c.id == bindparam("turn")).with_for_update(key_share=True)


class Fence:
    """A turn's standing inside a transaction.

    `running`: it runs, in its session's generation; what it did is still written. `may_begin`: moreover no stop
    was accepted; something new may begin.
    """

    def __init__(self, row: Row[Any] | None) -> None:
        self.found = row is not None
        self.run: str = row.run if row else ""
        self.session: str = row.session if row else ""
        self.generation: int = row.generation if row else -1
        self.snapshot: str = (row.snapshot or "") if row else ""
        self.action_dir: str = row.action_dir if row else ""
        self.entry: str = row.entry if row else ""
        self.depth: int = row.depth if row else 0
        self.run_mode: RunMode = row.run_mode if row else "plan"
        self.stop_origin: str | None = row.stop_origin if row else None
        self.running = row is not None and row.state == "running" and row.generation == row.current
        self.may_begin = self.running and self.stop_origin is None


def fence(tx: Tx, turn: str, *, lock: bool = True) -> Fence:
    """Locks the turn's row first, before ledger, approvals and counter (the lock order)."""
    if lock and tx.dialect.name == "postgresql":
        # By itself: a statement that waits for a lock sees other tables as they were before it waited.
        tx.execute(HOLD, {"turn": turn})
    return Fence(tx.execute(STANDING, {"turn": turn}).one_or_none())
