"""The transcript: rows are appended, never changed, and a step has one reply however often it was asked for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, BindParameter, ColumnElement, bindparam, func, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.ledger import FINAL, PlannedCall, StoredReply
from roundturn.message import AskedCall, Entry, Reply, Usage
from roundturn.store import Conversation, OpenStep
from roundturn.stores.engine import Database, Tx, now, reading, writing
from roundturn.stores.fence import Fence, fence
from roundturn.stores.journal import append
from roundturn.stores.ledger import call_row
from roundturn.stores.tables import entries, now_ms, sessions, tool_calls, turns


def _sum(column: ColumnElement[int], more: BindParameter[int]) -> ColumnElement[int]:
    """What nobody counted stays NULL, and adds nothing."""
    return func.coalesce(column + more, column, more)


LAST_SEQ = select(sessions.c.last_seq).where(sessions.c.id == bindparam("of")).with_for_update(key_share=True)
TAKE_SEQ = update(sessions).where(sessions.c.id == bindparam("of"))
APPEND = entries.insert()
REQUEST = tool_calls.insert().values(created_at=now_ms())
REPLY = (
    select(entries)
    .where(
        entries.c.turn == bindparam("turn"),
        entries.c.step == bindparam("step"),
        entries.c.role == "assistant",
    )
    .order_by(entries.c.generation.desc())
    .limit(1)
)
STANDS = REPLY.subquery()
REPLY_OF_ATTEMPT = select(STANDS.c.seq).where(STANDS.c.started_at == bindparam("began"))
CALLS = (
    select(tool_calls)
    .where(tool_calls.c.turn == bindparam("turn"), tool_calls.c.step == bindparam("step"))
    .order_by(tool_calls.c.index)
)
NEWS = (
    entries.c.session == bindparam("of"),
    entries.c.generation == bindparam("in_generation"),
    entries.c.seq > bindparam("after"),
)
CHARGE = (
    update(turns)
    .where(turns.c.id == bindparam("of"))
    .values(
        {
            name: _sum(turns.c[name], bindparam(f"more_{name}", type_=BigInteger()))
            for name in Usage.model_fields
        }
    )
)
ENTRIES = select(entries).where(*NEWS).order_by(entries.c.seq)
RESULTS = (
    select(tool_calls.c.id, tool_calls.c.output)
    .join(
        entries,
        (entries.c.turn == tool_calls.c.turn)
        & (entries.c.step == tool_calls.c.step)
        & (entries.c.role == "assistant")
        & (entries.c.generation == tool_calls.c.generation),
    )
    .where(*NEWS, tool_calls.c.status.in_(FINAL))
)


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
            standing.run_mode,
            news,
        )

    @writing
    def store_reply(
        self, tx: Tx, turn: str, step: int, reply: Reply, calls: Sequence[PlannedCall], started_at: datetime
    ) -> StoredReply | None:
        # The transcript's next place belongs to the session, whose row comes first in the lock order.
        seq = tx.execute(LAST_SEQ, {"of": ids.session_of(turn)}).scalar_one() + 1
        standing = fence(tx, turn)
        known = _stored(tx, turn, step)
        if known is None or not _is_of_attempt(tx, turn, step, started_at):
            _charge(tx, turn, reply.usage)  # it was paid for, kept or not
        if known is not None:
            return known
        if not standing.running:
            return None
        tx.execute(TAKE_SEQ, {"of": standing.session, "last_seq": seq})
        entry = {
            "session": standing.session,
            "generation": standing.generation,
            "seq": seq,
            "role": "assistant",
            "turn": turn,
            "step": step,
            "text": reply.text,
            "calls": [planned.asked.model_dump() for planned in calls],
            "finish": reply.finish,
            "model": reply.model,
            "started_at": started_at,
        }
        tx.execute(APPEND, entry)
        if calls:
            tx.execute(REQUEST, _ledger_rows(tx, standing, turn, step, calls))
        append(tx, standing.run, _events(turn, step, reply, calls, started_at))
        return _stored(tx, turn, step)


def conversation(tx: Tx, session: str, generation: int, after: int) -> Conversation:
    since = {"of": session, "in_generation": generation, "after": after}
    found = tx.execute(ENTRIES, since).all()
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
        results={row.id: row.output for row in tx.execute(RESULTS, since)},
    )


def _is_of_attempt(tx: Tx, turn: str, step: int, started_at: datetime) -> bool:
    """Whether the reply that stands is of the attempt that began then: its commit went through unheard."""
    found = tx.execute(REPLY_OF_ATTEMPT, {"turn": turn, "step": step, "began": started_at})
    return found.one_or_none() is not None


def _stored(tx: Tx, turn: str, step: int) -> StoredReply | None:
    at = {"turn": turn, "step": step}
    row = tx.execute(REPLY, at).one_or_none()
    if row is None:
        return None
    asked = tuple(AskedCall(**call) for call in row.calls)
    reply = Reply(text=row.text, calls=asked, finish=row.finish, model=row.model or "")
    calls = tuple(call_row(call, lease_live=False) for call in tx.execute(CALLS, at)) if asked else ()
    return StoredReply(reply, calls)


def _ledger_rows(
    tx: Tx, standing: Fence, turn: str, step: int, calls: Sequence[PlannedCall]
) -> list[dict[str, Any]]:
    return [
        {
            "id": ids.call_id(turn, step, index),
            "session": standing.session,
            "generation": standing.generation,
            "turn": turn,
            "step": step,
            "index": index,
            "provider_id": planned.asked.provider_id,
            "tool": planned.tool,
            "arguments": planned.arguments,
            "effect": planned.effect.value,
            "limit_ms": round(planned.limit_s * 1000),
            "brief": planned.brief,
            "status": "requested" if planned.refusal is None else "denied",
            "is_error": planned.refusal is not None,
            "output": planned.refusal[1] if planned.refusal else "",
            "metadata": {"error_type": planned.refusal[0]} if planned.refusal else {},
            "settled_at": now(tx) if planned.refusal else None,
        }
        for index, planned in enumerate(calls)
    ]


def _charge(tx: Tx, turn: str, usage: Usage) -> None:
    counted = usage.model_dump()
    if any(count is not None for count in counted.values()):
        tx.execute(CHARGE, {"of": turn, **{f"more_{name}": count for name, count in counted.items()}})


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
                    "tool": planned.tool[:64],
                    "effect": planned.effect.value,
                    "shown": planned.shown,
                },
            )
            for index, planned in enumerate(calls)
        ),
    ]
