"""The ledger of tool calls: who may run one, what came of it, and every attempt that was made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Row, bindparam, select, true, update

from roundturn import ids
from roundturn.call import MAY_HAVE_RUN, Attempt
from roundturn.event import NewEvent
from roundturn.jsontext import clean_text, recordable
from roundturn.ledger import FINAL, CallRow, Claim, OpenCall, Outcome
from roundturn.rules import entries_of
from roundturn.stores.engine import Database, Tx, each_dialect, now, reading, writing
from roundturn.stores.fence import Fence, fence
from roundturn.stores.journal import append
from roundturn.stores.live_rules import COLUMNS, live_row
from roundturn.stores.tables import actions, approvals, attempts, live_rules, now_ms, tool_calls
from roundturn.tool import Effect

UNKNOWN = (
    "Outcome unknown: the worker died while this was running and it cannot be repeated safely. "
    "It may have run; look at its effect before doing it again."
)
NAME_CHARACTERS = 64  # of a tool, rule or layer in the journal; the ledger has it whole

ROW = select(tool_calls, (tool_calls.c.lease_until > now_ms()).label("lease_live")).where(
    tool_calls.c.id == bindparam("call")
)
LOCKED = ROW.with_for_update(key_share=True)
# With the rules for all sessions, which cost no statement of their own.
# And with whether an attempt that was cut off is known of from one that was only audited.
CUT_OFF = (
    select(attempts.c.id)
    .where(attempts.c.call == tool_calls.c.id, attempts.c.error_type == MAY_HAVE_RUN)
    .exists()
    .label("cut_off")
)
OPEN = ROW.add_columns(*COLUMNS, CUT_OFF).outerjoin(live_rules, true())
OF_CALL = tool_calls.update().where(tool_calls.c.id == bindparam("call"))
LEASE = bindparam("lease_ms", type_=BigInteger())
TAKE = OF_CALL.values(status="claimed", owner=bindparam("by"), lease_until=now_ms() + LEASE)
RENEW = OF_CALL.where(tool_calls.c.owner == bindparam("by"), tool_calls.c.status == "claimed").values(
    lease_until=now_ms() + LEASE
)
SETTLE = OF_CALL.values(settled_at=now_ms())
GIVE_BACK = actions.delete().where(actions.c.call == bindparam("call"))
AUDIT = each_dialect(lambda insert: insert(attempts).on_conflict_do_nothing())


class SqlLedger:
    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def read(self, tx: Tx, call: str) -> CallRow | None:
        row = _row(tx, call, lock=False)
        return None if row is None else call_row(row, bool(row.lease_live))

    @reading
    def open_call(self, tx: Tx, call: str) -> OpenCall | None:
        row = tx.execute(OPEN, {"call": call}).one_or_none()
        if row is None:
            return None
        standing = fence(tx, row.turn, lock=False)
        return OpenCall(
            row=call_row(row, bool(row.lease_live)),
            may_begin=standing.may_begin,
            run=standing.run,
            action_dir=standing.action_dir,
            generation=standing.generation,
            snapshot=standing.snapshot,
            entries=entries_of(standing.entry, standing.depth),
            run_mode=standing.run_mode,
            live=live_row(row),
            cut_off=bool(row.cut_off),
        )

    @writing
    def claim(
        self, tx: Tx, call: str, owner: str, lease: timedelta | None, grant: str | None, digest: str
    ) -> Claim:
        standing, row = locked_call(tx, call)
        if row.status in FINAL:
            return "final"
        if row.status == "claimed":
            return "won" if row.owner == owner else "busy"
        if not standing.may_begin:
            return "stopped"
        if grant is not None and not _consume(tx, call, grant, digest):
            return "ungranted"
        _take(tx, row, owner, lease)
        append(
            tx, standing.run, [NewEvent("tool.started", {"call": call, "tool": row.tool[:NAME_CHARACTERS]})]
        )
        return "won"

    @writing
    def renew(self, tx: Tx, call: str, owner: str, lease: timedelta) -> bool:
        return tx.execute(RENEW, {"call": call, "by": owner, "lease_ms": _ms(lease)}).rowcount == 1

    @writing
    def settle(self, tx: Tx, call: str, owner: str, outcome: Outcome, attempt: Attempt) -> CallRow:
        standing, row = locked_call(tx, call)
        _audit(tx, call, attempt)
        if row.status in FINAL or (row.status == "claimed" and row.owner != owner):
            return call_row(row, bool(row.lease_live))
        return _settled(tx, row, standing.run, outcome, attempt.elapsed_ms)

    @writing
    def settle_unknown(self, tx: Tx, call: str, owner: str, attempt: Attempt) -> CallRow:
        standing, row = locked_call(tx, call)
        if row.status != "claimed" or row.owner != owner or row.lease_live:
            return call_row(row, bool(row.lease_live))
        _audit(tx, call, attempt)
        outcome = Outcome("completed", UNKNOWN, is_error=True, metadata={"error_type": "outcome_unknown"})
        return _settled(tx, row, standing.run, outcome, attempt.elapsed_ms)

    @writing
    def audit(self, tx: Tx, call: str, attempt: Attempt) -> None:
        _audit(tx, call, attempt)


def call_row(row: Row[Any], lease_live: bool) -> CallRow:
    return CallRow(
        id=row.id,
        session=row.session,
        turn=row.turn,
        step=row.step,
        index=row._mapping["index"],
        tool=row.tool,
        arguments=row.arguments,
        effect=Effect(row.effect),
        limit_s=row.limit_ms / 1000,
        brief=row.brief,
        status=row.status,
        is_error=row.is_error,
        output=row.output,
        metadata=row.metadata,
        owner=row.owner,
        lease_live=lease_live,
    )


def locked_call(tx: Tx, call: str) -> tuple[Fence, Row[Any]]:
    """How the call's turn stands and the call itself, locked in this order."""
    standing = fence(tx, ids.CallPosition.parse(call).turn)
    row = _row(tx, call)
    assert row is not None, "a call is in the ledger before anybody works on it"
    return standing, row


def _row(tx: Tx, call: str, *, lock: bool = True) -> Row[Any] | None:
    return tx.execute(LOCKED if lock else ROW, {"call": call}).one_or_none()


def _take(tx: Tx, row: Row[Any], owner: str, lease: timedelta | None) -> None:
    """A `once` call gets its owner. Another one waits no more: a turn that ends now must not say that it never ran."""
    if lease is None:
        tx.execute(OF_CALL, {"call": row.id, "status": "requested"})
    else:
        tx.execute(TAKE, {"call": row.id, "by": owner, "lease_ms": _ms(lease)})


def _consume(tx: Tx, call: str, grant: str, digest: str) -> bool:
    """A grant is used up here, for this call and these arguments; the same call may show it again (design section 6)."""
    fits = (approvals.c.id == grant, approvals.c.call == call, approvals.c.digest == digest)
    use = update(approvals).where(*fits, approvals.c.state == "approved")
    if tx.execute(use.values(state="consumed", consumed_at=now(tx))).rowcount == 1:
        return True
    again = select(approvals.c.id).where(*fits, approvals.c.state == "consumed")
    return tx.execute(again).scalar_one_or_none() is not None


def _settled(tx: Tx, row: Row[Any], run: str, outcome: Outcome, elapsed_ms: int) -> CallRow:
    settled, event = settle(tx, row, outcome, elapsed_ms)
    append(tx, run, [event])
    return settled


def settle(
    tx: Tx, row: Row[Any], outcome: Outcome, elapsed_ms: int | None = None
) -> tuple[CallRow, NewEvent]:
    """Writes the result; returns it and what the journal says of it. Without a time: it ended, it was not run."""
    written: dict[str, Any] = {
        "status": outcome.status,
        "is_error": outcome.is_error,
        "output": clean_text(outcome.output),
        "metadata": recordable(dict(outcome.metadata)),
    }
    tx.execute(SETTLE, {"call": row.id, **written})
    if outcome.status == "denied":  # it has done nothing: its place among the hour's actions is free
        tx.execute(GIVE_BACK, {"call": row.id})
    data = {
        "call": row.id,
        "tool": row.tool[:NAME_CHARACTERS],
        "status": outcome.status,
        "is_error": outcome.is_error,
        "error_type": written["metadata"].get("error_type", ""),
    }
    if outcome.status == "denied":
        metadata = written["metadata"]
        named = {"rule": metadata.get("rule_id"), "layer": metadata.get("layer")}
        data |= {field: str(name)[:NAME_CHARACTERS] for field, name in named.items() if name}
    if elapsed_ms is not None:
        data["elapsed_ms"] = elapsed_ms
    return replace(call_row(row, lease_live=False), **written), NewEvent("tool.settled", data)


def _audit(tx: Tx, call: str, attempt: Attempt) -> None:
    row = {
        "id": attempt.id,
        "call": call,
        "status": attempt.status,
        "error_type": attempt.error_type,
        "started_at": attempt.started_at,
        "elapsed_ms": attempt.elapsed_ms,
        "grant": attempt.grant,
    }
    tx.execute(AUDIT[tx.dialect.name], row)


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
