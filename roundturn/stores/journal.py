"""The journal: events get dense offsets per run, in the transaction that makes them true."""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select

from roundturn.event import NewEvent, RunEvent
from roundturn.stores.engine import Database, Tx, each_dialect, reading, writing
from roundturn.stores.tables import UtcMillis, event_counters, now_ms, run_events

ADDED = bindparam("added", type_=event_counters.c.last.type)
BUMP = each_dialect(
    lambda insert: (
        insert(event_counters)
        .values(last=ADDED)
        .on_conflict_do_update(index_elements=["run"], set_={"last": event_counters.c.last + ADDED})
        .returning(event_counters.c.last)
    )
)
RECORD = run_events.insert().values(ts=func.coalesce(bindparam("at", type_=UtcMillis()), now_ms()))


def append(tx: Tx, run: str, events: Sequence[NewEvent]) -> None:
    """Called last in a transaction: the counter row is the end of the lock order (design section 4)."""
    if not events:
        return
    last = tx.execute(BUMP[tx.dialect.name], {"run": run, "added": len(events)}).scalar_one()
    tx.execute(
        RECORD,
        [
            {"run": run, "offset": offset, "type": event.type, "at": event.ts, "data": event.data}
            for offset, event in enumerate(events, last - len(events) + 1)
        ],
    )


class SqlJournal:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def append(self, tx: Tx, run: str, events: Sequence[NewEvent]) -> None:
        append(tx, run, events)

    @reading
    def read(self, tx: Tx, run: str, after: int, limit: int) -> list[RunEvent]:
        query = (
            select(run_events)
            .where(run_events.c.run == run, run_events.c.offset > after)
            .order_by(run_events.c.offset)
            .limit(limit)
        )
        return [RunEvent(**row._mapping) for row in tx.execute(query)]
