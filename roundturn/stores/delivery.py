"""The way of results to their parent: they wait together in one inbox row, become one turn, and have landed at its end."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, exists, func, select, update

from roundturn import ids
from roundturn.delegation import (
    DELIVERY_ATTEMPTS,
    DELIVERY_LATEST,
    DELIVERY_QUIET,
    FIRST_REDELIVERY,
    SubagentResult,
    again_message,
    results_message,
)
from roundturn.stores.engine import Tx, now
from roundturn.stores.tables import completions, inbox, runs, sessions

LIVE_CHILDREN = exists().where(
    runs.c.parent_run == bindparam("run"), runs.c.state == "active", ~runs.c.discarded
)
TAKEN_BEFORE = select(func.max(completions.c.attempts)).where(
    completions.c.turn == bindparam("turn"), completions.c.delivery == "taken"
)


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


def until_ripe(tx: Tx, row: Row[Any]) -> timedelta:
    """How long results wait for more of their run; nothing when none of its subagents is at work any more."""
    at = now(tx)
    if row.not_before is not None and row.not_before > at:
        return timedelta(seconds=(row.not_before - at).total_seconds())
    if not has_live_children(tx, row.run):
        return timedelta(0)
    first, newest = tx.execute(
        select(func.min(completions.c.created_at), func.max(completions.c.created_at)).where(
            completions.c.parent_run == row.run, completions.c.delivery == "waiting"
        )
    ).one()
    due: datetime = min(newest + DELIVERY_QUIET, first + DELIVERY_LATEST)
    return due - at


def take_results(tx: Tx, run: str, turn: str) -> tuple[str, list[str]]:
    """All results of the run that wait, for this turn: what it hears and the runs that brought it."""
    query = (
        select(runs, completions.c.text, completions.c.attempts)
        .join(completions, completions.c.run == runs.c.id)
        .where(completions.c.parent_run == run, completions.c.delivery == "waiting")
        .order_by(completions.c.created_at, completions.c.run)
    )
    found = tx.execute(query).all()
    fresh = [subagent_result(one, one.text) for one in found if one.attempts == 0]
    told = len(found) - len(fresh)
    texts = [results_message(fresh)] if fresh else []
    texts += [again_message(told)] if told else []
    delivered = [one.id for one in found]
    take = update(completions).where(completions.c.run.in_(delivered))
    tx.execute(take.values(delivery="taken", turn=turn, attempts=completions.c.attempts + 1))
    return "\n\n".join(texts), delivered


def settle_delivery(tx: Tx, session: str, run: str, turn: str, state: str) -> None:
    """The results that a turn took have landed with it; when it failed they are tried again, a few times (B-06)."""
    attempts = tx.execute(TAKEN_BEFORE, {"turn": turn}).scalar_one()
    if attempts is None:
        return
    again = state == "failed" and attempts < DELIVERY_ATTEMPTS
    delivery = "waiting" if again else "abandoned" if state == "failed" else "delivered"
    mine = update(completions).where(completions.c.turn == turn, completions.c.delivery == "taken")
    tx.execute(mine.values(delivery=delivery))
    if again:
        announce(tx, session, run, now(tx) + FIRST_REDELIVERY * 2 ** (attempts - 1))


def discard_results(tx: Tx, run: str) -> None:
    """Of a run that is stopped nothing is delivered any more (B-05)."""
    waiting = completions.c.parent_run == run, completions.c.delivery == "waiting"
    tx.execute(update(completions).where(*waiting).values(delivery="discarded"))
    withdraw(tx, run)


def has_live_children(tx: Tx, run: str) -> bool:
    return bool(tx.execute(select(LIVE_CHILDREN), {"run": run}).scalar_one())


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
