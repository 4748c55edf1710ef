"""Rows that are locked for a whole transaction, always in this order, so that no two transactions wait for each other.

1. sessions, a parent's before its child's
2. turns (`fence.fence` for what acts on behalf of one)
3. the ledger's calls (`ledger.locked_call`), then approvals
4. the counter of a journal, a child's run before its parent's: `journal.append` comes last
"""

from typing import Any

from sqlalchemy import Row, bindparam, select

from roundturn.stores.engine import Tx
from roundturn.stores.tables import sessions

SESSION = select(sessions).where(sessions.c.id == bindparam("session")).with_for_update(key_share=True)
PARENT = select(sessions.c.parent).where(sessions.c.id == bindparam("session"))


def lock_session(tx: Tx, session: str) -> Row[Any] | None:
    return tx.execute(SESSION, {"session": session}).one_or_none()


def lock_with_parent(tx: Tx, session: str) -> None:
    """For what may end a run: a subagent's end concerns its parent's inbox."""
    if tx.dialect.name == "sqlite":
        return  # a write transaction has the whole file
    parent = tx.execute(PARENT, {"session": session}).scalar_one_or_none()
    for one in (parent, session):
        if one is not None:
            lock_session(tx, one)
