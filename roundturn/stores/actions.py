"""The actions of the last hour, counted for the job that they belong to."""

from datetime import datetime, timedelta

from sqlalchemy import BigInteger, bindparam, select

from roundturn import ids
from roundturn.stores.engine import Database, Tx, each_dialect, now, writing
from roundturn.stores.locks import lock_session
from roundturn.stores.tables import actions, now_ms, runs, tool_calls, turns

HOUR = timedelta(hours=1)
KEEP = actions.update().where(actions.c.call == bindparam("of_call")).values(at=now_ms())
ROOT = (
    select(runs.c.root)
    .join(turns, turns.c.run == runs.c.id)
    .join(tool_calls, tool_calls.c.turn == turns.c.id)
    .where(tool_calls.c.id == bindparam("of_call"))
)
SINCE = bindparam("since", type_=actions.c.at.type)
# As many newer ones as the limit allows, less one: while it is of this hour, there is no room.
LAST_PLACE = (
    select(actions.c.at)
    .where(actions.c.session == bindparam("job"), actions.c.at > SINCE)
    .order_by(actions.c.at.desc())
    .offset(bindparam("behind", type_=BigInteger()))
    .limit(1)
)
# A call that still waits for a person keeps its place, however long that takes.
FORGET = actions.delete().where(
    actions.c.session == bindparam("job"),
    actions.c.at <= SINCE,
    actions.c.call.in_(select(tool_calls.c.id).where(tool_calls.c.settled_at.is_not(None))),
)
ADD = each_dialect(lambda insert: insert(actions).on_conflict_do_nothing())


class SqlActions:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def reserve(self, tx: Tx, call: str, limit: int) -> datetime | None:
        if tx.execute(KEEP, {"of_call": call}).rowcount == 1:
            return None
        root = tx.execute(ROOT, {"of_call": call}).scalar_one()
        job = ids.session_of(root)
        if tx.dialect.name == "postgresql":
            lock_session(tx, job)  # two that count at the same moment would both find the last place free
        at = now(tx)
        if limit <= 0:
            return at + HOUR
        # One statement: a place may be given back between two, by a call that was refused.
        within = {"job": job, "since": at - HOUR, "behind": limit - 1}
        last: datetime | None = tx.execute(LAST_PLACE, within).scalar_one_or_none()
        if last is not None:
            return last + HOUR
        tx.execute(FORGET, {"job": job, "since": at - HOUR})
        tx.execute(ADD[tx.dialect.name], {"call": call, "session": job, "at": at})
        return None
