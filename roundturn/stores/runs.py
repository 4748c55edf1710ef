"""Runs: what one message or one delegation became; subagents are spawned, waited for and collected here."""

import secrets
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, exists, func, select, update

from roundturn import ids
from roundturn.delegation import (
    LIVE_PER_PARENT,
    MAX_SPAWN_DEPTH,
    SPAWNS_A_MINUTE,
    TOTAL_PER_ROOT,
    result_text,
)
from roundturn.event import NewEvent
from roundturn.ledger import FINAL, Outcome
from roundturn.run import NewSubagent, Refusal, RunRow, Spawned
from roundturn.stores.closing import at_work, run_row
from roundturn.stores.delivery import subagent_result, withdraw
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.fence import fence
from roundturn.stores.inbox import put
from roundturn.stores.journal import append
from roundturn.stores.ledger import OF_CALL, locked_call, settle
from roundturn.stores.locks import lock_session
from roundturn.stores.tables import completions, inbox, runs, sessions, tool_calls, turns

STILL_AT_WORK = "It is still at work. Its result will come to you by itself, later."
TOLD = "Its result came to you before; look above."
ELSEWHERE = {  # a result that does not wait any more
    "taken": TOLD,
    "delivered": TOLD,
    "abandoned": TOLD,
    "collected": TOLD,
    "discarded": "It was stopped together with the work it belonged to; its result was not kept for you.",
}
STOPPING = Refusal("turn_stopping", "Not done: the turn is being stopped.")


class SqlRuns:
    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def read(self, tx: Tx, run: str) -> RunRow | None:
        row = tx.execute(select(runs).where(runs.c.id == run)).one_or_none()
        return None if row is None else _run(row)

    @reading
    def at_work(self, tx: Tx, session: str) -> RunRow | None:
        active = select(runs).where(runs.c.session == session, runs.c.state == "active")
        row = tx.execute(active.order_by(runs.c.created_at, runs.c.id).limit(1)).one_or_none()
        return None if row is None else _run(row)

    @reading
    def children(self, tx: Tx, run: str) -> list[RunRow]:
        rows = tx.execute(select(runs).where(runs.c.parent_run == run).order_by(runs.c.created_at, runs.c.id))
        return [_run(row) for row in rows]

    @writing
    def spawn(self, tx: Tx, call: str, wanted: NewSubagent) -> Spawned | Refusal:
        turn = ids.CallPosition.parse(call).turn
        parent = lock_session(tx, ids.session_of(turn))
        assert parent is not None, "a call has a session"
        if (known := _of_call(tx, call)) is not None:
            if wanted.awaited:
                _wait(tx, call)
            return known
        standing = fence(tx, turn)
        if not standing.may_begin:
            return STOPPING
        root = run_row(tx, standing.run).root
        if (refusal := _limit(tx, parent, root)) is not None:
            return refusal
        held = at_work(tx, parent.id) >= LIVE_PER_PARENT
        child, at = ids.session_id(secrets.token_bytes(16)), now(tx)
        tx.execute(
            sessions.insert().values(
                id=child,
                agent=wanted.agent,
                action_dir=parent.action_dir,
                parent=parent.id,
                depth=parent.depth + 1,
                entry=parent.entry,
                run_mode=parent.run_mode,
                last_turn=1,
                created_at=at,
            )
        )
        run = ids.turn_id(child, 1)
        tx.execute(
            runs.insert().values(
                id=run,
                session=child,
                root=root,
                parent_run=standing.run,
                parent_session=parent.id,
                call=call,
                agent=wanted.agent,
                title=wanted.title,
                max_result_chars=wanted.max_result_chars,
                awaited_by=call if wanted.awaited else None,
                state="active",
                created_at=at,
            )
        )
        if wanted.awaited:
            _wait(tx, call)
        append(tx, run, [put(tx, run, wanted.task, at, held=held)])
        data = {"call": call, "agent": wanted.agent, "title": wanted.title, "session": child, "run": run}
        told = [NewEvent("subagent.spawned", data)]
        append(tx, standing.run, [*told, _awaited(call, run)] if wanted.awaited else told)
        return Spawned(child, run, held)

    @writing
    def wait_for(self, tx: Tx, call: str, session: str) -> Refusal | None:
        parent = ids.session_of(call)
        lock_session(tx, parent)
        standing = fence(tx, ids.CallPosition.parse(call).turn)
        row = tx.execute(
            select(runs)
            .where(runs.c.session == session, runs.c.parent_session == parent)
            .order_by(runs.c.created_at.desc(), runs.c.id.desc())
            .limit(1)
        ).one_or_none()
        if row is None:
            return Refusal(
                "no_such_subagent", f"You have no subagent {session[:64]}; see the references you got."
            )
        waiting = _waiting(tx, row.awaited_by) if row.awaited_by not in (None, call) else False
        if waiting:
            return Refusal("already_awaited", f"Another call of yours waits for {session} already.")
        tx.execute(update(runs).where(runs.c.id == row.id).values(awaited_by=call))
        if _wait(tx, call):
            append(tx, standing.run, [_awaited(call, row.id)])
        return None

    @writing
    def collect(self, tx: Tx, call: str, last: bool) -> bool:
        lock_session(tx, ids.session_of(call))
        standing, row = locked_call(tx, call)
        if row.status in FINAL:
            return True
        run = tx.execute(select(runs).where(runs.c.awaited_by == call)).one_or_none()
        assert run is not None, "a call waits for the run that it was registered for"
        found = tx.execute(select(completions).where(completions.c.run == run.id)).one_or_none()
        if found is None and not last:
            return False
        text = STILL_AT_WORK if found is None else _collected(tx, call, run, found)
        tx.execute(update(runs).where(runs.c.id == run.id).values(awaited_by=None))
        outcome = Outcome("completed", text, is_error=found is not None and run.state != "completed")
        took = now(tx) - row.created_at
        _, event = settle(tx, row, outcome, round(took.total_seconds() * 1000))
        append(tx, standing.run, [event])
        return True

    @reading
    def unheard(self, tx: Tx, older_than: timedelta, limit: int) -> list[str]:
        query = (
            select(runs.c.awaited_by)
            .join(completions, completions.c.run == runs.c.id)
            .where(completions.c.delivery == "waiting", completions.c.created_at <= now(tx) - older_than)
            .where(runs.c.awaited_by.is_not(None))
            .order_by(completions.c.created_at)
            .limit(limit)
        )
        return [ids.CallPosition.parse(call).turn for call in tx.execute(query).scalars()]


def _limit(tx: Tx, parent: Row[Any], root: str) -> Refusal | None:
    if parent.depth + 1 > MAX_SPAWN_DEPTH:
        return Refusal(
            "SpawnDepthExceeded",
            f"SpawnDepthExceeded: this is {parent.depth} delegations deep and {MAX_SPAWN_DEPTH} are allowed. "
            "Do it yourself or say what is missing.",
        )
    spawned = select(func.count()).where(runs.c.root == root, runs.c.parent_run.is_not(None))
    if tx.execute(spawned).scalar_one() >= TOTAL_PER_ROOT:
        return Refusal(
            "too_many_subagents",
            f"This run has spawned {TOTAL_PER_ROOT} subagents, which is the limit. Work with what they brought.",
        )
    lately = spawned.where(runs.c.created_at > now(tx) - timedelta(minutes=1))
    if tx.execute(lately).scalar_one() >= SPAWNS_A_MINUTE:
        return Refusal(
            "spawn_rate",
            f"This run has spawned {SPAWNS_A_MINUTE} subagents within a minute. Wait for some of them first.",
        )
    return None


def _wait(tx: Tx, call: str) -> bool:
    """The call stands open until `collect`; a turn that ends before knows that nothing is unknown about it.

    False when it did so already.
    """
    open_ = OF_CALL.where(tool_calls.c.status == "requested")
    return tx.execute(open_, {"call": call, "status": "awaiting"}).rowcount == 1


def _awaited(call: str, run: str) -> NewEvent:
    return NewEvent("subagent.awaited", {"call": call, "run": run})


def _of_call(tx: Tx, call: str) -> Spawned | None:
    """What the call made before: a spawn that is repeated makes nothing new."""
    row = tx.execute(select(runs.c.session, runs.c.id).where(runs.c.call == call)).one_or_none()
    if row is None:
        return None
    waits = exists().where(inbox.c.turn == row.id, inbox.c.state == "held")
    return Spawned(row.session, row.id, held=bool(tx.execute(select(waits)).scalar_one()))


def _waiting(tx: Tx, call: str) -> bool:
    """Whether the call has no result yet and its turn still runs."""
    query = (
        select(tool_calls.c.id)
        .join(turns, turns.c.id == tool_calls.c.turn)
        .where(tool_calls.c.id == call, tool_calls.c.status.not_in(FINAL), turns.c.state == "running")
    )
    return tx.execute(query).one_or_none() is not None


def _collected(tx: Tx, call: str, run: Row[Any], found: Row[Any]) -> str:
    """The result, taken away from its delivery; what has been told before is not told again."""
    if found.delivery != "waiting":
        return ELSEWHERE[found.delivery]
    mine = update(completions).where(completions.c.run == run.id)
    tx.execute(mine.values(delivery="collected", collected_by=call))
    withdraw(tx, found.parent_run)
    return result_text(subagent_result(run, found.text))


def _run(row: Row[Any]) -> RunRow:
    return RunRow(
        id=row.id,
        session=row.session,
        root=row.root,
        parent_run=row.parent_run,
        parent_session=row.parent_session,
        call=row.call,
        agent=row.agent,
        title=row.title,
        discarded=row.discarded,
        state=row.state,
        reason=row.reason,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )
