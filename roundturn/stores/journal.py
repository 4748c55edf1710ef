"""The journal: events get dense offsets per run, in the transaction that makes them true."""

from collections.abc import Sequence

from sqlalchemy import select

from roundturn.event import NewEvent, RunEvent
from roundturn.stores.engine import Database, Tx, insert, now, reading, writing
from roundturn.stores.tables import event_counters, run_events


def append(tx: Tx, run: str, events: Sequence[NewEvent]) -> None:
    """Called last in a transaction: the counter row is the end of the lock order (design section 4)."""
    if not events:
        return
    bump = (
        insert(tx, event_counters)
        .values(run=run, last=len(events))
        .on_conflict_do_update(index_elements=["run"], set_={"last": event_counters.c.last + len(events)})
        .returning(event_counters.c.last)
    )
    first = tx.execute(bump).scalar_one() - len(events) + 1
    at = now(tx)
    rows = [
        {"run": run, "offset": first + i, "type": event.type, "ts": event.ts or at, "data": event.data}
        for i, event in enumerate(events)
    ]
    tx.execute(run_events.insert(), rows)


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
