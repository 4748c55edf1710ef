"""The inbox: a message is a row before anybody is woken, and is handled once, in order, whoever rings how often."""

from datetime import timedelta

from sqlalchemy import exists, func, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.store import Accepted, Taken
from roundturn.stores.engine import Database, Tx, now
from roundturn.stores.journal import append
from roundturn.stores.tables import entries, inbox, sessions, turns

PREVIEW_CHARACTERS = 200


class SqlInbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def accept(self, session: str, text: str, key: str | None = None) -> Accepted | None:
        async with self._database.write() as tx:
            row = (
                await tx.execute(
                    select(sessions).where(sessions.c.id == session).with_for_update(key_share=True)
                )
            ).one_or_none()
            if row is None:
                return None
            if key is not None and (known := await _by_key(tx, session, key)):
                return known
            turn = ids.turn_id(session, row.last_turn + 1)
            at = await now(tx)
            ahead = await _open_rows(tx, session)
            await tx.execute(
                update(sessions).where(sessions.c.id == session).values(last_turn=row.last_turn + 1)
            )
            await tx.execute(
                inbox.insert().values(
                    session=session, turn=turn, key=key, text=text, state="waiting", created_at=at
                )
            )
            await tx.execute(
                turns.insert().values(
                    id=turn,
                    session=session,
                    run=turn,
                    generation=row.generation,
                    state="queued",
                    created_at=at,
                )
            )
            await append(
                tx,
                turn,
                [NewEvent("message.accepted", {"position": ahead, "text": text[:PREVIEW_CHARACTERS]})],
            )
            return Accepted(session, turn, ahead, repeated=False)

    async def should_ring(self, turn: str) -> bool:
        older = inbox.alias()
        query = (
            select(func.count())
            .select_from(inbox.join(older, older.c.session == inbox.c.session))
            .where(inbox.c.turn == turn, older.c.id < inbox.c.id, older.c.state == "waiting", older.c.rung)
        )
        async with self._database.read() as tx:
            return (await tx.execute(query)).scalar_one() == 0

    async def mark_rung(self, turn: str) -> None:
        async with self._database.write() as tx:
            await tx.execute(update(inbox).where(inbox.c.turn == turn).values(rung=True))

    async def take(self, session: str) -> Taken | None:
        query = select(inbox).where(inbox.c.session == session).order_by(inbox.c.id).limit(1)
        async with self._database.read() as tx:  # the usual last question of a session needs no write lock
            row = (await tx.execute(query.where(inbox.c.state.in_(("waiting", "taken"))))).one_or_none()
        if row is None:
            return None
        async with self._database.write() as tx:
            holder = (
                await tx.execute(
                    select(sessions).where(sessions.c.id == session).with_for_update(key_share=True)
                )
            ).one()
            if (row := (await tx.execute(query.where(inbox.c.state == "taken"))).one_or_none()) is not None:
                return Taken(row.turn, holder.generation)
            if (row := (await tx.execute(query.where(inbox.c.state == "waiting"))).one_or_none()) is None:
                return None
            await _begin(tx, row.turn, row.text, session, holder.generation, holder.last_seq + 1)
            return Taken(row.turn, holder.generation)

    async def count_start(self, turn: str) -> int:
        bump = update(inbox).where(inbox.c.turn == turn).values(failed_starts=inbox.c.failed_starts + 1)
        async with self._database.write() as tx:
            failed: int = (await tx.execute(bump.returning(inbox.c.failed_starts))).scalar_one()
            return failed

    async def untaken(self, older_than: timedelta, limit: int) -> list[str]:
        async with self._database.read() as tx:
            before = await now(tx) - older_than
            busy = (
                inbox.alias()
            )  # its turn's end is what moves the queue on; ringing meanwhile would only fill history
            query = (
                select(inbox.c.session)
                .where(inbox.c.state == "waiting", inbox.c.created_at <= before)
                .where(~exists().where(busy.c.session == inbox.c.session, busy.c.state == "taken"))
                .group_by(inbox.c.session)
                .order_by(func.min(inbox.c.id))
                .limit(limit)
            )
            return list((await tx.execute(query)).scalars())


async def _begin(tx: Tx, turn: str, text: str, session: str, generation: int, seq: int) -> None:
    await tx.execute(update(sessions).where(sessions.c.id == session).values(last_seq=seq))
    await tx.execute(update(inbox).where(inbox.c.turn == turn).values(state="taken"))
    await tx.execute(
        update(turns)
        .where(turns.c.id == turn)
        .values(state="running", started_at=await now(tx), generation=generation)
    )
    await tx.execute(
        entries.insert().values(
            session=session,
            generation=generation,
            seq=seq,
            role="user",
            turn=turn,
            step=0,
            text=text,
            calls=[],
        )
    )
    await append(tx, turn, [NewEvent("turn.started")])


async def _by_key(tx: Tx, session: str, key: str) -> Accepted | None:
    query = select(inbox.c.turn).where(inbox.c.session == session, inbox.c.key == key)
    turn = (await tx.execute(query)).scalar_one_or_none()
    return None if turn is None else Accepted(session, turn, 0, repeated=True)


async def _open_rows(tx: Tx, session: str) -> int:
    query = select(func.count()).where(inbox.c.session == session, inbox.c.state.in_(("waiting", "taken")))
    found: int = (await tx.execute(query)).scalar_one()
    return found
