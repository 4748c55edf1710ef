"""The end of a run: when nothing more can come of it, how a subagent's result reaches its parent, how all is stopped.

Sessions are locked from the parent down, counters from the child up, so that no two transactions wait for each other.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, exists, func, select, update

from roundturn import ids
from roundturn.delegation import DELIVERY_ATTEMPTS, FIRST_REDELIVERY, LIVE_PER_PARENT, SubagentResult
from roundturn.event import RUN_ENDED, NewEvent, RunState
from roundturn.jsontext import cut
from roundturn.run import Wakeups
from roundturn.stores.engine import Tx, now
from roundturn.stores.journal import append
from roundturn.stores.tables import completions, entries, inbox, runs, sessions

SHOWN_BYTES = 200
OPEN_ROWS = ("held", "waiting", "taken")


@dataclass
class Closing:
    """What a transaction has to say at its end: events of each run, the deepest first, and whom to call."""

    events: list[tuple[str, NewEvent]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def say(self, run: str, *events: NewEvent) -> None:
        self.events += [(run, event) for event in events]

    def write(self, tx: Tx) -> Wakeups:
        """The last statements of the transaction: the counters end the lock order."""
        for run in dict.fromkeys(run for run, _ in self.events):
            append(tx, run, [event for of, event in self.events if of == run])
        return Wakeups(tuple(dict.fromkeys(self.sessions)), tuple(dict.fromkeys(self.turns)))


def hold(tx: Tx, session: str) -> None:
    """Locks the session's row, its parent's before it: the end of a run concerns both."""
    parent = tx.execute(select(sessions.c.parent).where(sessions.c.id == session)).scalar_one_or_none()
    for held in (parent, session):
        if held is not None:
            lock(tx, held)


def lock(tx: Tx, session: str) -> Row[Any] | None:
    return tx.execute(
        select(sessions).where(sessions.c.id == session).with_for_update(key_share=True)
    ).one_or_none()


def inbox_is_empty(tx: Tx, turn: str) -> bool:
    """Of the turn's session; a subagent that is held waits for somebody else's end."""
    more = exists().where(inbox.c.session == ids.session_of(turn), inbox.c.state.in_(("waiting", "taken")))
    return not tx.execute(select(more)).scalar_one()


def run_row(tx: Tx, run: str) -> Row[Any]:
    return tx.execute(select(runs).where(runs.c.id == run)).one()


def has_live_children(tx: Tx, run: str) -> bool:
    live = exists().where(runs.c.parent_run == run, runs.c.state == "active", ~runs.c.discarded)
    return bool(tx.execute(select(live)).scalar_one())


def end_if_over(tx: Tx, turn: Row[Any], state: RunState, reason: str, closing: Closing) -> None:
    """After the run's last turn has ended; a run ends once, with the state of its last turn (design section 7)."""
    run: str = turn.run
    more = exists().where(inbox.c.run == run, inbox.c.state.in_(OPEN_ROWS))
    if has_live_children(tx, run) or tx.execute(select(more)).scalar_one():
        return
    end = update(runs).where(runs.c.id == run, runs.c.state == "active")
    if tx.execute(end.values(state=state, reason=reason, ended_at=now(tx))).rowcount == 0:
        return
    closing.say(run, NewEvent(RUN_ENDED, {"state": state, "reason": reason}))
    row = run_row(tx, run)
    if row.parent_run is not None:
        _complete(tx, row, last_words(tx, turn.id, turn.generation), closing)


def wakeups_again(tx: Tx, run: str) -> Wakeups:
    """Whom the end of the run concerned, for a caller that did not hear it the first time."""
    row = run_row(tx, run)
    waits = select(completions.c.delivery).where(completions.c.run == run)
    if tx.execute(waits).scalar_one_or_none() != "waiting":
        return Wakeups()
    turns = (ids.CallPosition.parse(row.awaited_by).turn,) if row.awaited_by else ()
    return Wakeups((row.parent_session,), turns)


def _complete(tx: Tx, row: Row[Any], text: str, closing: Closing) -> None:
    """The subagent's result and, unless nobody wants it, the parent's inbox row: the same transaction (B-03)."""
    tx.execute(
        completions.insert().values(
            run=row.id,
            parent_run=row.parent_run,
            text=text,
            delivery="discarded" if row.discarded else "waiting",
            created_at=now(tx),
        )
    )
    if run_row(tx, row.parent_run).state == "active":
        data = {
            "call": row.call,
            "agent": row.agent,
            "session": row.session,
            "run": row.id,
            "state": row.state,
            "reason": row.reason,
            "shown": cut(" ".join(text.split()), SHOWN_BYTES),
        }
        closing.say(row.parent_run, NewEvent("subagent.ended", data))
    if not row.discarded:
        announce(tx, row.parent_session, row.parent_run, None)
        closing.sessions.append(row.parent_session)
        if row.awaited_by is not None:
            closing.turns.append(ids.CallPosition.parse(row.awaited_by).turn)
    release(tx, row.parent_session, closing)


def last_words(tx: Tx, turn: str, generation: int) -> str:
    """What the model said last in a turn, and said with words; empty when it never did."""
    said = select(entries.c.text).where(
        entries.c.turn == turn,
        entries.c.role == "assistant",
        entries.c.generation == generation,
        func.length(entries.c.text) > 0,
    )
    return tx.execute(said.order_by(entries.c.step.desc()).limit(1)).scalar_one_or_none() or ""


def announce(tx: Tx, session: str, run: str, not_before: datetime | None) -> None:
    """One row in the parent's inbox for all results of a run that wait; its turn will take them together (B-08)."""
    there = exists().where(inbox.c.run == run, inbox.c.kind == "results", inbox.c.state == "waiting")
    if tx.execute(select(there)).scalar_one():
        return
    bump = update(sessions).where(sessions.c.id == session).values(last_turn=sessions.c.last_turn + 1)
    n = tx.execute(bump.returning(sessions.c.last_turn)).scalar_one()
    tx.execute(
        inbox.insert().values(
            session=session,
            turn=ids.turn_id(session, n),
            run=run,
            kind="results",
            text="",
            state="waiting",
            not_before=not_before,
            created_at=now(tx),
        )
    )


def withdraw(tx: Tx, run: str) -> None:
    """The row goes when none of its results waits any more: an empty batch starts no turn."""
    waits = exists().where(completions.c.parent_run == run, completions.c.delivery == "waiting")
    if not tx.execute(select(waits)).scalar_one():
        empty = update(inbox).where(inbox.c.run == run, inbox.c.kind == "results", inbox.c.state == "waiting")
        tx.execute(empty.values(state="done"))


def settle_delivery(tx: Tx, session: str, run: str, turn: str, state: str) -> None:
    """The results that a turn took have landed with it; when it failed they are tried again, a few times (B-06)."""
    taken = completions.c.turn == turn, completions.c.delivery == "taken"
    attempts = tx.execute(select(func.max(completions.c.attempts)).where(*taken)).scalar_one()
    if attempts is None:
        return
    again = state == "failed" and attempts < DELIVERY_ATTEMPTS
    delivery = "waiting" if again else "abandoned" if state == "failed" else "delivered"
    tx.execute(update(completions).where(*taken).values(delivery=delivery))
    if again:
        announce(tx, session, run, now(tx) + FIRST_REDELIVERY * 2 ** (attempts - 1))


def release(tx: Tx, parent: str, closing: Closing) -> None:
    """Places that became free go to the delegations that wait for one, the oldest first."""
    held = _held(parent)
    for session, row in tx.execute(held.order_by(inbox.c.id)).all():
        if at_work(tx, parent) >= LIVE_PER_PARENT:
            return
        tx.execute(update(inbox).where(inbox.c.id == row).values(state="waiting"))
        closing.sessions.append(session)


def at_work(tx: Tx, parent: str) -> int:
    """How many of a session's subagents have a place and have not ended."""
    live = select(func.count()).where(
        runs.c.parent_session == parent, runs.c.state == "active", ~runs.c.discarded
    )
    waiting = select(func.count()).select_from(_held(parent).subquery())
    found: int = tx.execute(live).scalar_one() - tx.execute(waiting).scalar_one()
    return found


def _held(parent: str) -> Any:
    return (
        select(inbox.c.session, inbox.c.id)
        .join(sessions, sessions.c.id == inbox.c.session)
        .where(sessions.c.parent == parent, inbox.c.state == "held")
    )


def discard_results(tx: Tx, run: str) -> None:
    """Of a run that is stopped nothing is delivered any more (B-05)."""
    waiting = completions.c.parent_run == run, completions.c.delivery == "waiting"
    tx.execute(update(completions).where(*waiting).values(delivery="discarded"))
    withdraw(tx, run)


def subagent_result(run: Row[Any], text: str) -> SubagentResult:
    return SubagentResult(
        session=run.session,
        agent=run.agent,
        title=run.title,
        state=run.state,
        reason=run.reason,
        text=text,
        max_chars=run.max_result_chars,
    )
