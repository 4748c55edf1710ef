"""The journal: events get dense offsets per run, in the transaction that makes them true."""

from collections.abc import Sequence

from sqlalchemy import select

from roundturn.event import NewEvent, RunEvent
from roundturn.stores.engine import Database, Tx, insert, now
from roundturn.stores.tables import event_counters, run_events


async def append(tx: Tx, run: str, events: Sequence[NewEvent]) -> None:
    """Called last in a transaction: the counter row is the end of the lock order (design section 4)."""
    if not events:
        return
    bump = (
        insert(tx, event_counters)
        .values(run=run, last=len(events))
        .on_conflict_do_update(index_elements=["run"], set_={"last": event_counters.c.last + len(events)})
        .returning(event_counters.c.last)
    )
    first = (await tx.execute(bump)).scalar_one() - len(events) + 1
    at = await now(tx)
    rows = [
        {"run": run, "offset": first + i, "type": event.type, "ts": event.ts or at, "data": event.data}
        for i, event in enumerate(events)
    ]
    await tx.execute(run_events.insert(), rows)


class SqlJournal:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, run: str, events: Sequence[NewEvent]) -> None:
        async with self._database.write() as tx:
            await append(tx, run, events)

    async def read(self, run: str, after: int, limit: int) -> list[RunEvent]:
        query = (
            select(run_events)
            .where(run_events.c.run == run, run_events.c.offset > after)
            .order_by(run_events.c.offset)
            .limit(limit)
        )
        async with self._database.read() as tx:
            return [RunEvent(**row._mapping) for row in await tx.execute(query)]
