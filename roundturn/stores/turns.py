"""Turns: may one go on, how it is stopped, and the one transaction that ends it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, Select, bindparam, func, select, update

from roundturn import ids
from roundturn.event import TERMINAL, NewEvent, RunState
from roundturn.ledger import FINAL, Outcome
from roundturn.message import Usage
from roundturn.run import Finished, Wakeups
from roundturn.store import Look, Stopped, TurnRow
from roundturn.stores.closing import Closing, end_if_over, inbox_is_empty, last_words, run_row, wakeups_again
from roundturn.stores.delivery import discard_results, settle_delivery
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.fence import fence
from roundturn.stores.ledger import settle
from roundturn.stores.locks import lock_session, lock_with_parent
from roundturn.stores.tables import approvals, inbox, now_ms, runs, tool_calls, turns
from roundturn.tool import Effect

NOT_RUN = "Not run: the turn ended first."
NOT_COLLECTED = "The turn ended before the subagent's result was there."
MAY_HAVE_RUN = (
    "Outcome unknown: the turn ended while this was running. It may have run; check before doing it again."
)


LOCKED = select(turns).where(turns.c.id == bindparam("turn")).with_for_update(key_share=True)
END = turns.update().where(turns.c.id == bindparam("turn")).values(ended_at=now_ms())
SETTLE_ROW = inbox.update().where(inbox.c.turn == bindparam("of_turn"))
OPEN_CALLS = (
    select(tool_calls)
    .where(tool_calls.c.turn == bindparam("turn"), tool_calls.c.status.not_in(FINAL))
    .order_by(tool_calls.c.step, tool_calls.c.index)
)
CANCEL_APPROVALS = (
    approvals.update()
    .where(approvals.c.turn == bindparam("of_turn"), approvals.c.state.in_(("pending", "approved")))
    .values(state="cancelled")
    .returning(approvals.c.id)
)


class SqlTurns:
    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def read(self, tx: Tx, turn: str) -> TurnRow | None:
        return _one(tx, select(turns).where(turns.c.id == turn))

    @reading
    def look(self, tx: Tx, turn: str, waiting: Sequence[str]) -> Look:
        standing = fence(tx, turn, lock=False)
        query = select(approvals.c.id, approvals.c.state).where(
            approvals.c.turn == turn, approvals.c.id.in_(waiting), approvals.c.state != "pending"
        )
        decided = {row.id: row.state for row in tx.execute(query)}
        return Look(standing.running, standing.stop_origin, decided)

    @reading
    def last_of(self, tx: Tx, session: str) -> TurnRow | None:
        query = (
            select(turns).join(inbox, inbox.c.turn == turns.c.id).where(turns.c.session == session).limit(1)
        )
        opened = query.where(turns.c.state.in_(("running", "queued"))).order_by(inbox.c.id)
        return _one(tx, opened) or _one(tx, query.order_by(inbox.c.id.desc()))

    @reading
    def of_session(self, tx: Tx, session: str) -> list[TurnRow]:
        return _all(tx, select(turns).where(turns.c.session == session))

    @reading
    def of_run(self, tx: Tx, run: str) -> list[TurnRow]:
        return _all(tx, select(turns).where(turns.c.run == run))

    @writing
    def request_stop(self, tx: Tx, turn: str, origin: str) -> Stopped | None:
        # A queued turn may be taken at this moment; who takes it holds the session's row (the lock order).
        lock_with_parent(tx, ids.session_of(turn))
        row = tx.execute(select(turns.c.run).where(turns.c.id == turn)).one_or_none()
        if row is None:
            return None
        closing = Closing()
        if run_row(tx, row.run).state == "active":
            stop_run(tx, row.run, origin, closing)
        wakeups = closing.write(tx)
        found = _one(tx, select(turns).where(turns.c.id == turn))
        assert found is not None
        return Stopped(found, wakeups)

    @writing
    def finish(self, tx: Tx, turn: str, state: RunState, reason: str, steps: int) -> Finished:
        lock_with_parent(tx, ids.session_of(turn))
        row = _locked(tx, turn)
        if row is None or row.state != "running":
            return Finished(False, inbox_is_empty(tx, turn), wakeups_again(tx, row.run) if row else Wakeups())
        closing = Closing()
        closing.say(row.run, *_settle_calls(tx, turn), *cancel_approvals(tx, turn))
        _end(tx, row, state, reason, steps, closing)
        end_if_over(tx, row, state, reason, closing)
        return Finished(True, inbox_is_empty(tx, turn), closing.write(tx))

    @reading
    def stopping(self, tx: Tx, limit: int) -> list[str]:
        query = select(turns.c.id).where(turns.c.state == "running", turns.c.stop_origin.is_not(None))
        return list(tx.execute(query.order_by(turns.c.started_at).limit(limit)).scalars())

    @writing
    def running_since(self, tx: Tx, older_than: timedelta, limit: int) -> list[str]:
        at = now(tx)
        query = (
            select(turns.c.id)
            .where(turns.c.state == "running", turns.c.started_at <= at - older_than)
            .order_by(func.coalesce(turns.c.checked_at, 0), turns.c.started_at)
            .limit(limit)
            .with_for_update(key_share=True, skip_locked=True)  # somebody is at work on those
        )
        found = list(tx.execute(query).scalars())
        tx.execute(update(turns).where(turns.c.id.in_(found)).values(checked_at=at))
        return found


def _locked(tx: Tx, turn: str) -> Row[Any] | None:
    return tx.execute(LOCKED, {"turn": turn}).one_or_none()


def cancel_approvals(tx: Tx, turn: str) -> list[NewEvent]:
    """Pending and approved but unconsumed ones: after a stop nothing may begin (P47)."""
    cancelled = tx.execute(CANCEL_APPROVALS, {"of_turn": turn}).scalars().all()
    return [NewEvent("approval.cancelled", {"approval_id": approval}) for approval in cancelled]


def stop_run(tx: Tx, run: str, origin: str, closing: Closing) -> None:
    """Its turns, all that it delegated, and what was to be delivered to it (I-03); what runs ends by itself."""
    discard_results(tx, run)
    for child in tx.execute(
        select(runs).where(runs.c.parent_run == run, runs.c.state == "active").order_by(runs.c.id)
    ).all():
        lock_session(tx, child.session)
        tx.execute(update(runs).where(runs.c.id == child.id).values(discarded=True))
        stop_run(tx, child.id, origin, closing)
    mine = select(turns).where(turns.c.run == run).order_by(turns.c.created_at, turns.c.id)
    rows = tx.execute(mine.with_for_update(key_share=True)).all()
    running = [row for row in rows if row.state == "running"]
    for row in rows:
        if row.state in ("running", "queued") and row.stop_origin is None:
            tx.execute(update(turns).where(turns.c.id == row.id).values(stop_origin=origin))
            asked = NewEvent("turn.stop_requested", {"turn": row.id, "origin": origin})
            closing.say(run, asked, *cancel_approvals(tx, row.id))
        if row.state == "running":
            closing.turns.append(row.id)
        if row.state == "queued":  # nothing runs: ended here, no workflow is needed
            _end(tx, row, "cancelled", f"stopped by {origin} before it started", 0, closing)
    if not running:
        reason = f"stopped by {origin}"
        end_if_over(tx, rows[-1], "cancelled", reason, closing)


def _end(tx: Tx, row: Row[Any], state: RunState, reason: str, steps: int, closing: Closing) -> None:
    tx.execute(END, {"turn": row.id, "state": state, "reason": reason, "steps": steps})
    tx.execute(SETTLE_ROW, {"of_turn": row.id, "state": "failed" if state == "failed" else "done"})
    closing.say(
        row.run, NewEvent(TERMINAL, {"turn": row.id, "state": state, "reason": reason, "steps": steps})
    )
    settle_delivery(tx, row.session, row.run, row.id, state)


def _settle_calls(tx: Tx, turn: str) -> list[NewEvent]:
    """Every call of an ended turn has an answer, so that the session can go on (P91)."""
    rows = tx.execute(OPEN_CALLS, {"turn": turn}).all()
    return [settle(tx, row, _at_the_end(row))[1] for row in rows]


def _at_the_end(row: Row[Any]) -> Outcome:
    # A keyed call is not claimed, so that one in flight looks like one that never began.
    if row.status == "claimed" or (row.status == "requested" and row.effect == Effect.KEYED):
        return Outcome("completed", MAY_HAVE_RUN, is_error=True, metadata={"error_type": "outcome_unknown"})
    text = NOT_COLLECTED if row.status == "awaiting" else NOT_RUN
    return Outcome("denied", text, is_error=True, metadata={"error_type": "turn_ended"})


def _all(tx: Tx, query: Select[Any]) -> list[TurnRow]:
    found = [_turn(tx, row) for row in tx.execute(query).all()]
    return sorted(found, key=lambda turn: ids.number_of(turn.id))


def _one(tx: Tx, query: Select[Any]) -> TurnRow | None:
    row = tx.execute(query).one_or_none()
    return None if row is None else _turn(tx, row)


def _turn(tx: Tx, row: Row[Any]) -> TurnRow:
    return TurnRow(
        id=row.id,
        session=row.session,
        run=row.run,
        generation=row.generation,
        state=row.state,
        reason=row.reason,
        text=last_words(tx, row.id, row.generation),
        steps=row.steps,
        stop_origin=row.stop_origin,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        usage=Usage(
            input_tokens=row.input_tokens, output_tokens=row.output_tokens, cached_tokens=row.cached_tokens
        ),
    )
