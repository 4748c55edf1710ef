"""The inbox: a message is a row before anybody is woken, and is handled once, in order, whoever rings how often."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, exists, func, or_, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.message import Role
from roundturn.store import Accepted, NotYet, Taken
from roundturn.stores.delivery import take_results, until_ripe
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.journal import append
from roundturn.stores.locks import lock_session
from roundturn.stores.tables import entries, inbox, now_ms, runs, sessions, turns

PREVIEW_CHARACTERS = 200


OPEN_ROWS = (
    select(inbox)
    .where(inbox.c.session == bindparam("session"), inbox.c.state.in_(("waiting", "taken")))
    .order_by(inbox.c.id)
)
OPEN_COUNT = select(func.count()).where(
    inbox.c.session == bindparam("session"), inbox.c.state.in_(("waiting", "taken"))
)
OLDER = inbox.alias()
OLDER_RUNG = (
    select(func.count())
    .select_from(inbox.join(OLDER, OLDER.c.session == inbox.c.session))
    .where(
        inbox.c.turn == bindparam("turn"), OLDER.c.id < inbox.c.id, OLDER.c.state == "waiting", OLDER.c.rung
    )
)
RUNG = inbox.update().where(inbox.c.turn == bindparam("of_turn")).values(rung=True)
TAKE = inbox.update().where(inbox.c.id == bindparam("row")).values(state="taken")
START = turns.update().where(turns.c.id == bindparam("turn")).values(state="running", started_at=now_ms())
RUN, ROW, TURN, ENTRY = runs.insert(), inbox.insert(), turns.insert(), entries.insert()
OF_SESSION = sessions.update().where(sessions.c.id == bindparam("session"))


class SqlInbox:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def accept(self, tx: Tx, session: str, text: str, key: str | None = None) -> Accepted | None:
        row = lock_session(tx, session)
        if row is None:
            return None
        if key is not None and (known := _by_key(tx, session, key)):
            return known
        turn = ids.turn_id(session, row.last_turn + 1)
        at = now(tx)
        ahead = _open_rows(tx, session)
        tx.execute(OF_SESSION, {"session": session, "last_turn": row.last_turn + 1})
        # A message from outside begins a run of its own, also in a subagent's session.
        tx.execute(
            RUN,
            {
                "id": turn,
                "session": session,
                "root": turn,
                "agent": row.agent,
                "state": "active",
                "created_at": at,
            },
        )
        append(tx, turn, [put(tx, turn, text, at, key=key, generation=row.generation, ahead=ahead)])
        return Accepted(session, turn, ahead, repeated=False)

    @reading
    def should_ring(self, tx: Tx, turn: str) -> bool:
        return tx.execute(OLDER_RUNG, {"turn": turn}).scalar_one() == 0

    @writing
    def mark_rung(self, tx: Tx, turn: str) -> None:
        tx.execute(RUNG, {"of_turn": turn})

    async def take(self, session: str) -> Taken | NotYet | None:
        # The usual last question of a session needs no write lock.
        return await self._take(session) if await self._has_work(session) else None

    @reading
    def _has_work(self, tx: Tx, session: str) -> bool:
        return _open_rows(tx, session) > 0

    @writing
    def _take(self, tx: Tx, session: str) -> Taken | NotYet | None:
        holder = lock_session(tx, session)
        assert holder is not None, "a session that is rung for exists"
        waiting = tx.execute(OPEN_ROWS, {"session": session}).all()
        if (row := next((row for row in waiting if row.state == "taken"), None)) is not None:
            return Taken(row.turn)
        if (row := next((row for row in waiting if row.kind == "message"), None)) is not None:
            tx.execute(START, {"turn": row.turn, "generation": holder.generation})
            _begin(tx, holder, row, "user", row.text, [])
            return Taken(row.turn)
        waits = []
        for row in waiting:
            wait = until_ripe(tx, row)
            if wait <= timedelta(0):
                _deliver(tx, holder, row)
                return Taken(row.turn)
            waits.append(wait)
        return NotYet(min(waits)) if waits else None

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
            .where(or_(inbox.c.not_before.is_(None), inbox.c.not_before <= now(tx)))
            .where(~exists().where(busy.c.session == inbox.c.session, busy.c.state == "taken"))
            .group_by(inbox.c.session)
            .order_by(func.min(inbox.c.id))
            .limit(limit)
        )
        return list(tx.execute(query).scalars())


def put(
    tx: Tx,
    turn: str,
    text: str,
    at: datetime,
    *,
    key: str | None = None,
    generation: int = 0,
    ahead: int = 0,
    held: bool = False,
) -> NewEvent:
    """A message that begins a run: its row and its queued turn; returns what the run's journal says of it."""
    session = ids.session_of(turn)
    begun = {"session": session, "run": turn, "created_at": at}
    state = "held" if held else "waiting"
    tx.execute(ROW, {**begun, "turn": turn, "kind": "message", "key": key, "text": text, "state": state})
    tx.execute(TURN, {**begun, "id": turn, "generation": generation, "state": "queued"})
    shown = text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"
    return NewEvent("message.accepted", {"position": ahead, "text": shown})


def _deliver(tx: Tx, holder: Row[Any], row: Row[Any]) -> None:
    """All results of the run that wait become one system turn (B-02, B-08)."""
    text, delivered = take_results(tx, row.run, row.turn)
    tx.execute(
        turns.insert().values(
            id=row.turn,
            session=holder.id,
            run=row.run,
            generation=holder.generation,
            state="running",
            created_at=row.created_at,
            started_at=now(tx),
        )
    )
    _begin(tx, holder, row, "system", text, delivered)


def _begin(tx: Tx, holder: Row[Any], row: Row[Any], role: Role, text: str, delivers: list[str]) -> None:
    seq = holder.last_seq + 1
    tx.execute(OF_SESSION, {"session": holder.id, "last_seq": seq})
    tx.execute(TAKE, {"row": row.id})
    entry = {
        "session": holder.id,
        "generation": holder.generation,
        "seq": seq,
        "role": role,
        "turn": row.turn,
        "step": 0,
        "text": text,
        "calls": [],
    }
    tx.execute(ENTRY, entry)
    data = {"turn": row.turn, "delivers": delivers} if delivers else {"turn": row.turn}
    append(tx, row.run, [NewEvent("turn.started", data)])


def _by_key(tx: Tx, session: str, key: str) -> Accepted | None:
    query = select(inbox.c.turn).where(inbox.c.session == session, inbox.c.key == key)
    turn = tx.execute(query).scalar_one_or_none()
    return None if turn is None else Accepted(session, turn, 0, repeated=True)


def _open_rows(tx: Tx, session: str) -> int:
    found: int = tx.execute(OPEN_COUNT, {"session": session}).scalar_one()
    return found
