"""The end of a run: when nothing more can come of it, what it leaves to its parent, who takes its place."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, bindparam, exists, func, or_, select, update

from roundturn import ids
from roundturn.delegation import LIVE_PER_PARENT
from roundturn.event import RUN_ENDED, NewEvent, RunState
from roundturn.jsontext import cut
from roundturn.run import Wakeups
from roundturn.stores.delivery import LIVE_CHILDREN, announce
from roundturn.stores.engine import Tx, now
from roundturn.stores.journal import append
from roundturn.stores.tables import completions, entries, inbox, now_ms, runs, sessions

SHOWN_BYTES = 200

RUN = select(runs).where(runs.c.id == bindparam("run"))
MORE_TO_COME = select(
    or_(
        LIVE_CHILDREN,
        exists().where(inbox.c.run == bindparam("run"), inbox.c.state.in_(("held", "waiting", "taken"))),
    )
)
END_RUN = (
    runs.update()
    .where(runs.c.id == bindparam("run"), runs.c.state == "active")
    .values(ended_at=now_ms())
    .returning(runs)
)
LAST_WORDS = (
    select(entries.c.text)
    .where(
        entries.c.turn == bindparam("turn"),
        entries.c.role == "assistant",
        entries.c.generation == bindparam("generation"),
        func.length(entries.c.text) > 0,
    )
    .order_by(entries.c.step.desc())
    .limit(1)
)
MORE_FOR_SESSION = select(
    exists().where(inbox.c.session == bindparam("session"), inbox.c.state.in_(("waiting", "taken")))
)


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


def inbox_is_empty(tx: Tx, turn: str) -> bool:
    """Of the turn's session; a subagent that is held waits for somebody else's end."""
    return not tx.execute(MORE_FOR_SESSION, {"session": ids.session_of(turn)}).scalar_one()


def run_row(tx: Tx, run: str) -> Row[Any]:
    return tx.execute(RUN, {"run": run}).one()


def end_if_over(tx: Tx, turn: Row[Any], state: RunState, reason: str, closing: Closing) -> None:
    """After the run's last turn has ended; a run ends once, with the state of its last turn (design section 7)."""
    if tx.execute(MORE_TO_COME, {"run": turn.run}).scalar_one():
        return
    row = tx.execute(END_RUN, {"run": turn.run, "state": state, "reason": reason}).one_or_none()
    if row is None:
        return
    closing.say(row.id, NewEvent(RUN_ENDED, {"state": state, "reason": reason}))
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
    return tx.execute(LAST_WORDS, {"turn": turn, "generation": generation}).scalar_one_or_none() or ""


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
