"""The transcript: rows are appended, never changed, and a step has one reply however often it was asked for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.message import AskedCall, Entry, Reply, Usage
from roundturn.store import FINAL, Conversation, OpenStep, PlannedCall, StoredReply
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.fence import Fence, fence
from roundturn.stores.journal import append
from roundturn.stores.ledger import call_row
from roundturn.stores.tables import entries, sessions, tool_calls, turns


class SqlTranscript:
    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def open_step(self, tx: Tx, turn: str, step: int, generation: int, seq: int) -> OpenStep | None:
        standing = fence(tx, turn, lock=False)
        if not standing.found:
            return None
        stored = _stored(tx, turn, step)
        news = Conversation((), {})
        if standing.may_begin and stored is None:
            after = seq if generation == standing.generation else 0
            news = conversation(tx, standing.session, standing.generation, after)
        return OpenStep(
            stored,
            standing.may_begin,
            standing.session,
            standing.run,
            standing.generation,
            standing.snapshot,
            news,
        )

    @writing
    def store_reply(
        self, tx: Tx, turn: str, step: int, reply: Reply, calls: Sequence[PlannedCall], started_at: datetime
    ) -> StoredReply | None:
        # The transcript's next place belongs to the session, whose row comes first in the lock order.
        owner = select(sessions.c.last_seq).where(sessions.c.id == ids.session_of(turn))
        seq = tx.execute(owner.with_for_update(key_share=True)).scalar_one() + 1
        standing = fence(tx, turn)
        known = _stored(tx, turn, step)
        if known is None or not _is_of_attempt(tx, turn, step, started_at):
            _charge(tx, turn, reply.usage)  # it was paid for, kept or not
        if known is not None:
            return known
        if not standing.running:
            return None
        tx.execute(update(sessions).where(sessions.c.id == standing.session).values(last_seq=seq))
        tx.execute(
            entries.insert().values(
                session=standing.session,
                generation=standing.generation,
                seq=seq,
                role="assistant",
                turn=turn,
                step=step,
                text=reply.text,
                calls=[planned.asked.model_dump() for planned in calls],
                finish=reply.finish,
                model=reply.model,
                started_at=started_at,
            )
        )
        if calls:
            tx.execute(tool_calls.insert(), _ledger_rows(tx, standing, turn, step, calls))
        append(tx, standing.run, _events(turn, step, reply, calls, started_at))
        return _stored(tx, turn, step)


def conversation(tx: Tx, session: str, generation: int, after: int) -> Conversation:
    rows = select(entries).where(
        entries.c.session == session, entries.c.generation == generation, entries.c.seq > after
    )
    found = tx.execute(rows.order_by(entries.c.seq)).all()
    results = (
        select(tool_calls.c.id, tool_calls.c.output)
        .join(
            entries,
            (entries.c.turn == tool_calls.c.turn)
            & (entries.c.step == tool_calls.c.step)
            & (entries.c.role == "assistant")
            & (entries.c.generation == tool_calls.c.generation),
        )
        .where(
            entries.c.session == session,
            entries.c.generation == generation,
            entries.c.seq > after,
            tool_calls.c.status.in_(FINAL),
        )
    )
    return Conversation(
        entries=tuple(
            Entry(
                seq=row.seq,
                role=row.role,
                turn=row.turn,
                step=row.step,
                text=row.text,
                calls=tuple(AskedCall(**call) for call in row.calls),
            )
            for row in found
        ),
        results={row.id: row.output for row in tx.execute(results)},
    )


def _reply(turn: str, step: int) -> Select[Any]:
    query = select(entries).where(
        entries.c.turn == turn, entries.c.step == step, entries.c.role == "assistant"
    )
    return query.order_by(entries.c.generation.desc()).limit(1)


def _is_of_attempt(tx: Tx, turn: str, step: int, started_at: datetime) -> bool:
    """Whether the reply that stands is of the attempt that began then: its commit went through unheard."""
    stands = _reply(turn, step).subquery()
    return tx.execute(select(stands.c.seq).where(stands.c.started_at == started_at)).one_or_none() is not None


def _stored(tx: Tx, turn: str, step: int) -> StoredReply | None:
    row = tx.execute(_reply(turn, step)).one_or_none()
    if row is None:
        return None
    calls = select(tool_calls).where(tool_calls.c.turn == turn, tool_calls.c.step == step)
    found = tx.execute(calls.order_by(tool_calls.c.index)).all()
    asked = tuple(AskedCall(**call) for call in row.calls)
    return StoredReply(
        Reply(text=row.text, calls=asked, finish=row.finish, model=row.model or ""),
        tuple(call_row(call, lease_live=False) for call in found),
    )


def _ledger_rows(
    tx: Tx, standing: Fence, turn: str, step: int, calls: Sequence[PlannedCall]
) -> list[dict[str, Any]]:
    at = now(tx)
    return [
        {
            "id": ids.call_id(turn, step, index),
            "session": standing.session,
            "generation": standing.generation,
            "turn": turn,
            "step": step,
            "index": index,
            "provider_id": planned.asked.provider_id,
            "tool": planned.asked.name,
            "arguments": planned.asked.arguments,
            "effect": planned.effect.value,
            "limit_ms": round(planned.limit_s * 1000),
            "brief": planned.brief,
            "status": "requested" if planned.refusal is None else "denied",
            "is_error": planned.refusal is not None,
            "output": planned.refusal[1] if planned.refusal else "",
            "metadata": {"error_type": planned.refusal[0]} if planned.refusal else {},
            "created_at": at,
            "settled_at": at if planned.refusal else None,
        }
        for index, planned in enumerate(calls)
    ]


def _charge(tx: Tx, turn: str, usage: Usage) -> None:
    added = {
        name: func.coalesce(turns.c[name], 0) + count
        for name, count in usage.model_dump().items()
        if count is not None
    }
    if added:
        tx.execute(update(turns).where(turns.c.id == turn).values(**added))


def _events(
    turn: str, step: int, reply: Reply, calls: Sequence[PlannedCall], started_at: datetime
) -> list[NewEvent]:
    said = {
        "turn": turn,
        "step": step,
        "finish": reply.finish,
        "calls": len(calls),
        "usage": reply.usage.model_dump(),
    }
    return [
        NewEvent("step.started", {"turn": turn, "step": step, "model": reply.model}, ts=started_at),
        NewEvent("model.replied", said),
        *(
            NewEvent(
                "tool.requested",
                {
                    "call": ids.call_id(turn, step, index),
                    "tool": planned.asked.name[:64],
                    "effect": planned.effect.value,
                    "shown": planned.shown,
                },
            )
            for index, planned in enumerate(calls)
        ),
    ]
