"""What the tables hold and no port tells, since only tests ask: a whole transcript, every attempt of a call."""

from sqlalchemy import select

from roundturn.call import Attempt
from roundturn.store import Conversation
from roundturn.stores import tables
from roundturn.stores.engine import Database
from roundturn.stores.transcript import conversation


async def transcript(database: Database, session: str) -> Conversation:
    """Of the first generation, from its beginning."""
    return await database.read(lambda tx: conversation(tx, session, generation=0, after=0))


async def attempts(database: Database, call: str) -> list[Attempt]:
    """Oldest first."""
    query = select(tables.attempts).where(tables.attempts.c.call == call).order_by("started_at")
    found = await database.read(lambda tx: tx.execute(query).all())
    return [
        Attempt(row.id, row.status, row.error_type, row.started_at, row.elapsed_ms, row.grant)
        for row in found
    ]
