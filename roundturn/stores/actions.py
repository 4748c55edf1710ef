"""The actions of the last hour, counted for the job that they belong to."""

from datetime import datetime, timedelta

from sqlalchemy import BigInteger, bindparam, func, select

from roundturn import ids
from roundturn.stores.engine import Database, Tx, each_dialect, now, writing
from roundturn.stores.locks import lock_session
from roundturn.stores.tables import actions, runs, tool_calls, turns

HOUR = timedelta(hours=1)
KNOWN = select(actions.c.call).where(actions.c.call == bindparam("of_call"))
ROOT = (
    select(runs.c.root)
    .join(turns, turns.c.run == runs.c.id)
    .join(tool_calls, tool_calls.c.turn == turns.c.id)
    .where(tool_calls.c.id == bindparam("of_call"))
)
SINCE = bindparam("since", type_=actions.c.at.type)
RECENT = select(func.count()).where(actions.c.session == bindparam("job"), actions.c.at > SINCE)
LATEST = (
    select(actions.c.at)
    .where(actions.c.session == bindparam("job"), actions.c.at > SINCE)
    .order_by(actions.c.at.desc())
    .offset(bindparam("behind", type_=BigInteger()))
    .limit(1)
)
ADD = each_dialect(lambda insert: insert(actions).on_conflict_do_nothing())


class SqlActions:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def reserve(self, tx: Tx, call: str, limit: int) -> datetime | None:
        if tx.execute(KNOWN, {"of_call": call}).first() is not None:
            return None
        root = tx.execute(ROOT, {"of_call": call}).scalar_one()
        job = ids.session_of(root)
        if tx.dialect.name == "postgresql":
            lock_session(tx, job)  # two that count at the same moment would both find the last place free
        at = now(tx)
        within = {"job": job, "since": at - HOUR}
        if limit <= 0:
            return at + HOUR
        if tx.execute(RECENT, within).scalar_one() >= limit:
            oldest: datetime = tx.execute(LATEST, {**within, "behind": limit - 1}).scalar_one()
            return oldest + HOUR
        tx.execute(ADD[tx.dialect.name], {"call": call, "session": job, "at": at})
        return None
