"""The inbox: a message is a row before anybody is woken, and is handled once, in order, whoever rings how often."""

from datetime import timedelta

from sqlalchemy import exists, func, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.store import Accepted, Taken
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.journal import append
from roundturn.stores.tables import entries, inbox, sessions, turns

PREVIEW_CHARACTERS = 200


class SqlInbox:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def accept(self, tx: Tx, session: str, text: str, key: str | None = None) -> Accepted | None:
        row = (
            tx.execute(select(sessions).where(sessions.c.id == session).with_for_update(key_share=True))
        ).one_or_none()
        if row is None:
            return None
        if key is not None and (known := _by_key(tx, session, key)):
            return known
        turn = ids.turn_id(session, row.last_turn + 1)
        at = now(tx)
        ahead = _open_rows(tx, session)
        tx.execute(update(sessions).where(sessions.c.id == session).values(last_turn=row.last_turn + 1))
        tx.execute(
            inbox.insert().values(
                session=session, turn=turn, key=key, text=text, state="waiting", created_at=at
            )
        )
        tx.execute(
            turns.insert().values(
                id=turn,
                session=session,
                run=turn,
                generation=row.generation,
                state="queued",
                created_at=at,
            )
        )
        append(
            tx,
            turn,
            [NewEvent("message.accepted", {"position": ahead, "text": text[:PREVIEW_CHARACTERS]})],
        )
        return Accepted(session, turn, ahead, repeated=False)

    @reading
    def should_ring(self, tx: Tx, turn: str) -> bool:
        older = inbox.alias()
        query = (
            select(func.count())
            .select_from(inbox.join(older, older.c.session == inbox.c.session))
            .where(inbox.c.turn == turn, older.c.id < inbox.c.id, older.c.state == "waiting", older.c.rung)
        )
        return tx.execute(query).scalar_one() == 0

    @writing
    def mark_rung(self, tx: Tx, turn: str) -> None:
        tx.execute(update(inbox).where(inbox.c.turn == turn).values(rung=True))

    async def take(self, session: str) -> Taken | None:
        # The usual last question of a session needs no write lock.
        return await self._take(session) if await self._has_work(session) else None

    @reading
    def _has_work(self, tx: Tx, session: str) -> bool:
        return _open_rows(tx, session) > 0

    @writing
    def _take(self, tx: Tx, session: str) -> Taken | None:
        query = select(inbox).where(inbox.c.session == session).order_by(inbox.c.id).limit(1)
        holder = tx.execute(
            select(sessions).where(sessions.c.id == session).with_for_update(key_share=True)
        ).one()
        if (row := tx.execute(query.where(inbox.c.state == "taken")).one_or_none()) is not None:
            return Taken(row.turn)
        if (row := tx.execute(query.where(inbox.c.state == "waiting")).one_or_none()) is None:
            return None
        _begin(tx, row.turn, row.text, session, holder.generation, holder.last_seq + 1)
        return Taken(row.turn)

    @writing
    def count_start(self, tx: Tx, turn: str) -> int:
        bump = update(inbox).where(inbox.c.turn == turn).values(failed_starts=inbox.c.failed_starts + 1)
        failed: int = tx.execute(bump.returning(inbox.c.failed_starts)).scalar_one()
        return failed

    @reading
    def untaken(self, tx: Tx, older_than: timedelta, limit: int) -> list[str]:
        before = now(tx) - older_than
        busy = inbox.alias()  # its turn's end moves the queue on; ringing meanwhile would only fill history
        query = (
            select(inbox.c.session)
            .where(inbox.c.state == "waiting", inbox.c.created_at <= before)
            .where(~exists().where(busy.c.session == inbox.c.session, busy.c.state == "taken"))
            .group_by(inbox.c.session)
            .order_by(func.min(inbox.c.id))
            .limit(limit)
        )
        return list(tx.execute(query).scalars())


def _begin(tx: Tx, turn: str, text: str, session: str, generation: int, seq: int) -> None:
    tx.execute(update(sessions).where(sessions.c.id == session).values(last_seq=seq))
    tx.execute(update(inbox).where(inbox.c.turn == turn).values(state="taken"))
    tx.execute(
        update(turns)
        .where(turns.c.id == turn)
        .values(state="running", started_at=now(tx), generation=generation)
    )
    tx.execute(
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
    append(tx, turn, [NewEvent("turn.started")])


def _by_key(tx: Tx, session: str, key: str) -> Accepted | None:
    query = select(inbox.c.turn).where(inbox.c.session == session, inbox.c.key == key)
    turn = tx.execute(query).scalar_one_or_none()
    return None if turn is None else Accepted(session, turn, 0, repeated=True)


def _open_rows(tx: Tx, session: str) -> int:
    query = select(func.count()).where(inbox.c.session == session, inbox.c.state.in_(("waiting", "taken")))
    found: int = tx.execute(query).scalar_one()
    return found
