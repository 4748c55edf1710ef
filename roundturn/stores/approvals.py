"""Approvals: one compare-and-swap is the moment of decision, and every answer is on record."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, Select, or_, select, update

from roundturn import ids
from roundturn.approval import (
    DECIDED,
    Answer,
    ApprovalRow,
    NewApproval,
    Standing,
    VerdictOutcome,
    standing_of,
)
from roundturn.event import NewEvent
from roundturn.stores.engine import Database, Tx, insert, now, reading, writing
from roundturn.stores.fence import fence
from roundturn.stores.journal import append
from roundturn.stores.tables import approvals, now_ms, tool_calls, turns, verdicts

SHORTEST_DIGEST = 12  # hexadecimal digits that show which call was looked at


class SqlApprovals:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def request(self, tx: Tx, wanted: NewApproval, ttl: timedelta) -> ApprovalRow | None:
        standing = fence(tx, wanted.turn)
        known = select(approvals).where(approvals.c.call == wanted.call, approvals.c.digest == wanted.digest)
        if (row := tx.execute(known).one_or_none()) is not None:
            return _approval(row)
        if not standing.may_begin:
            return None
        at = now(tx)
        made = ids.approval_id(secrets.token_bytes(16))
        once = insert(tx, approvals).values(
            **asdict(wanted), id=made, state="pending", created_at=at, expires_at=at + ttl, unverified=False
        )
        wait = update(tool_calls).where(
            tool_calls.c.id == wanted.call, tool_calls.c.status.in_(("requested", "suspended"))
        )
        if tx.execute(wait.values(status="suspended")).rowcount == 0:
            return None  # it is being run or has its result: nothing to ask a person
        tx.execute(once.on_conflict_do_nothing())
        row = tx.execute(known).one()
        append(tx, wanted.run, [NewEvent("approval.requested", _shown(row))])
        return _approval(row)

    @reading
    def read(self, tx: Tx, approval: str) -> ApprovalRow | None:
        return _one(tx, approval)

    async def find(self, prefix: str, limit: int) -> list[ApprovalRow]:
        query = select(approvals).where(approvals.c.id.startswith(prefix, autoescape=True)).limit(limit)
        return await self._all(query.order_by(approvals.c.created_at))

    async def page(self, states: Sequence[str], turn: str | None, limit: int) -> list[ApprovalRow]:
        query = select(approvals).where(approvals.c.state.in_(states))
        if turn is not None:
            query = query.where(approvals.c.turn == turn)
        return await self._all(query.order_by(approvals.c.created_at, approvals.c.id).limit(limit))

    @writing
    def decide(self, tx: Tx, approval: str, answer: Answer) -> VerdictOutcome:
        row = _one(tx, approval, lock=True)
        if row is None:
            return VerdictOutcome("unknown", None)
        events: list[NewEvent] = []
        if not _was_shown(row, answer.digest):
            standing: Standing = "changed"
        elif _swap(tx, row, answer):
            standing = "decided"
            data = {"approval_id": row.id, "state": DECIDED[answer.verdict], "actor": answer.actor}
            events = [NewEvent("approval.decided", data)]
        else:
            if _lapse(tx, row):
                events = [NewEvent("approval.expired", {"approval_id": row.id})]
            row = _one(tx, approval) or row
            standing = standing_of(row, answer.verdict)
        tx.execute(
            verdicts.insert().values(
                approval=row.id,
                verdict=answer.verdict,
                standing=standing,
                actor=answer.actor,
                unverified=answer.unverified,
                via=answer.via,
                note=answer.note,
                at=now(tx),
            )
        )
        append(tx, row.run, events)
        return VerdictOutcome(standing, _one(tx, approval))

    @writing
    def expire(self, tx: Tx, approval: str) -> ApprovalRow | None:
        row = _one(tx, approval, lock=True)
        if row is not None and _lapse(tx, row):
            append(tx, row.run, [NewEvent("approval.expired", {"approval_id": row.id})])
        return _one(tx, approval)

    @reading
    def undelivered(self, tx: Tx, older_than: timedelta, limit: int) -> list[str]:
        before = now(tx) - older_than
        decided = approvals.c.state.in_(("approved", "denied", "expired")) & (
            approvals.c.decided_at <= before
        )
        lapsed = (approvals.c.state == "pending") & (approvals.c.expires_at <= before)
        # From the turns that run: what was answered in earlier ones piles up, and is not read again at every pass.
        held_back = (
            select(approvals.c.id)
            .join(tool_calls, tool_calls.c.id == approvals.c.call)
            .where(approvals.c.turn == turns.c.id, tool_calls.c.status == "suspended", or_(decided, lapsed))
        )
        query = select(turns.c.id).where(turns.c.state == "running", held_back.exists()).limit(limit)
        return list(tx.execute(query).scalars())

    @reading
    def _all(self, tx: Tx, query: Select[Any]) -> list[ApprovalRow]:
        return [_approval(row) for row in tx.execute(query)]


def _was_shown(row: ApprovalRow, digest: str | None) -> bool:
    """Who names a digest saw a call, and decides on no other."""
    return digest is None or (len(digest) >= SHORTEST_DIGEST and row.digest.startswith(digest))


def _swap(tx: Tx, row: ApprovalRow, answer: Answer) -> bool:
    """Pending and not past its time by the database's clock, or nothing happens."""
    swap = update(approvals).where(
        approvals.c.id == row.id, approvals.c.state == "pending", approvals.c.expires_at > now_ms()
    )
    decided = swap.values(
        state=DECIDED[answer.verdict],
        actor=answer.actor,
        unverified=answer.unverified,
        note=answer.note,
        decided_at=now(tx),
    )
    return tx.execute(decided).rowcount == 1


def _lapse(tx: Tx, row: ApprovalRow) -> bool:
    lapse = update(approvals).where(
        approvals.c.id == row.id, approvals.c.state == "pending", approvals.c.expires_at <= now_ms()
    )
    return tx.execute(lapse.values(state="expired", decided_at=now(tx))).rowcount == 1


def _one(tx: Tx, approval: str, *, lock: bool = False) -> ApprovalRow | None:
    query = select(approvals).where(approvals.c.id == approval)
    row = tx.execute(query.with_for_update(key_share=True) if lock else query).one_or_none()
    return None if row is None else _approval(row)


def _approval(row: Row[Any]) -> ApprovalRow:
    return ApprovalRow(**row._mapping)


def _shown(row: Row[Any]) -> dict[str, Any]:
    expires = row.expires_at.isoformat(timespec="milliseconds")
    return {
        "approval_id": row.id,
        "call": row.call,
        "tool": row.tool,
        "rule": row.rule,
        "expires_at": expires,
    }
