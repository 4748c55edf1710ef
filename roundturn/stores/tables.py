"""The tables, once for SQLite and PostgreSQL; times are UTC milliseconds, so that the database's own clock compares."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from roundturn.jsontext import clean_text, dump, recordable

metadata = MetaData()


class UtcMillis(TypeDecorator[datetime]):
    """An aware UTC datetime in Python, epoch milliseconds in the table."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1000)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1000, UTC)


class CleanText(TypeDecorator[str]):
    """Text of any length from anywhere: what PostgreSQL or UTF-8 has no place for is replaced on the way in (P19)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(value)


class Label(TypeDecorator[str]):
    """A short text that only people read: clean, and cut to its length, which PostgreSQL would refuse to do."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(value)[: self.length]


class Json(TypeDecorator[Any]):
    """Strict JSON as text: the same bytes on both stores, read back as plain data."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else dump(recordable(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class now_ms(FunctionElement[int]):  # noqa: N801 - reads as the SQL function that it is
    """The database's clock in epoch milliseconds: leases and expiries are judged by one clock."""

    type = BigInteger()
    inherit_cache = True


@compiles(now_ms, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


@compiles(now_ms, "postgresql")
def _postgresql_now(*_: Any, **__: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


RowId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only for INTEGER

snapshots = Table(
    "snapshots",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("body", CleanText, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("client_key", String(200), unique=True),
    Column("agent", Label(64), nullable=False),
    Column("action_dir", CleanText, nullable=False),
    Column("generation", Integer, nullable=False, default=0),
    Column("snapshot", ForeignKey("snapshots.digest")),
    Column("last_turn", Integer, nullable=False, default=0),
    Column("last_seq", Integer, nullable=False, default=0),
    Column("parent", String(40)),  # the session that delegated to this one
    Column("depth", Integer, nullable=False, default=0),  # delegations above it
    Column("entry", Label(64), nullable=False),  # where its work comes in; delegated work keeps it
    Column("run_mode", String(5), CheckConstraint("run_mode IN ('build', 'plan')"), nullable=False),
    Column("created_at", UtcMillis, nullable=False),
    Index("sessions_parent", "parent"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(60), primary_key=True),  # of its first turn
    Column("session", ForeignKey("sessions.id"), nullable=False),
    Column("root", String(60), nullable=False),  # the run whose message came from outside; itself, mostly
    Column("parent_run", String(60)),  # from here to discarded: what a subagent's run has
    Column("parent_session", String(40)),
    Column("call", ForeignKey("tool_calls.id"), unique=True),
    Column("agent", Label(64), nullable=False),
    Column("title", Label(200), nullable=False, default=""),
    Column("max_result_chars", Integer, nullable=False, default=0),
    Column("awaited_by", String(90)),  # the call that waits for its result
    Column("discarded", Boolean, nullable=False, default=False),  # nobody wants its result any more
    Column(
        "state",
        String(16),
        CheckConstraint(
            "state IN ('active', 'completed', 'awaiting_user', 'incomplete', 'cancelled', 'failed')"
        ),
        nullable=False,
    ),
    Column("reason", CleanText, nullable=False, default=""),
    Column("created_at", UtcMillis, nullable=False),
    Column("ended_at", UtcMillis),
    Index("runs_parent", "parent_run", "state"),
    Index("runs_parent_session", "parent_session", "state"),
    Index("runs_root", "root", "created_at"),
)

completions = Table(
    "completions",
    metadata,
    Column("run", ForeignKey("runs.id"), primary_key=True),  # of the subagent: one result each (B-04)
    Column("parent_run", String(60), nullable=False),
    Column("text", CleanText, nullable=False),
    Column(
        "delivery",
        String(10),
        CheckConstraint(
            "delivery IN ('waiting', 'taken', 'delivered', 'collected', 'discarded', 'abandoned')"
        ),
        nullable=False,
    ),
    Column("turn", String(60)),  # the turn that delivers it
    Column("collected_by", String(90)),  # the call that took it instead
    Column("attempts", Integer, nullable=False, default=0),
    Column("created_at", UtcMillis, nullable=False),
    Index("completions_parent", "parent_run", "delivery"),
    Index("completions_turn", "turn"),
    Index("completions_delivery", "delivery", "created_at"),
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("session", ForeignKey("sessions.id"), nullable=False),
    Column("turn", String(60), nullable=False, unique=True),
    Column("run", String(60), nullable=False),
    Column("kind", String(8), CheckConstraint("kind IN ('message', 'results')"), nullable=False),
    Column("key", String(200)),
    Column("text", CleanText, nullable=False),
    Column(
        "state",
        String(10),
        CheckConstraint("state IN ('held', 'waiting', 'taken', 'done', 'failed')"),
        nullable=False,
    ),
    Column("rung", Boolean, nullable=False, default=False),
    Column("failed_starts", Integer, nullable=False, default=0),
    Column("not_before", UtcMillis),  # a delivery that failed is tried again later
    Column("created_at", UtcMillis, nullable=False),
    UniqueConstraint("session", "key"),
    Index("inbox_open", "session", "state", "id"),
    Index("inbox_state", "state", "created_at"),
    Index("inbox_run", "run", "state"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", String(60), primary_key=True),
    Column("session", ForeignKey("sessions.id"), nullable=False),
    Column("run", String(60), nullable=False),
    Column("generation", Integer, nullable=False),
    Column(
        "state",
        String(16),
        CheckConstraint(
            "state IN ('queued', 'running', 'completed', 'awaiting_user', 'incomplete', 'cancelled', 'failed')"
        ),
        nullable=False,
    ),
    Column("reason", CleanText, nullable=False, default=""),
    Column("steps", Integer, nullable=False, default=0),
    Column("stop_origin", Label(200)),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("created_at", UtcMillis, nullable=False),
    Column("started_at", UtcMillis),
    Column("ended_at", UtcMillis),
    Column("checked_at", UtcMillis),  # when the reconciler last asked after its workflow
    Index("turns_session", "session", "state"),
    Index("turns_running", "state", "started_at"),
)

entries = Table(
    "entries",
    metadata,
    Column("session", ForeignKey("sessions.id"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("role", String(10), CheckConstraint("role IN ('user', 'assistant', 'system')"), nullable=False),
    Column("turn", String(60), nullable=False),
    Column("step", Integer, nullable=False),
    Column("text", CleanText, nullable=False),
    Column("calls", Json, nullable=False),
    Column("finish", String(10)),
    Column("model", Label(200)),
    Column("started_at", UtcMillis),  # of the attempt whose reply this is; it tells attempts apart
    Index("entries_reply", "turn", "step", "role"),
)

tool_calls = Table(
    "tool_calls",
    metadata,
    Column("id", String(90), primary_key=True),
    Column("session", ForeignKey("sessions.id"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("turn", String(60), nullable=False),
    Column("step", Integer, nullable=False),
    Column("index", Integer, nullable=False),
    Column("provider_id", CleanText, nullable=False),
    Column("tool", CleanText, nullable=False),
    Column("arguments", CleanText, nullable=False),
    Column("effect", String(5), CheckConstraint("effect IN ('pure', 'keyed', 'once')"), nullable=False),
    Column("limit_ms", BigInteger, nullable=False),
    Column("brief", Boolean, nullable=False),
    Column(
        "status",
        String(10),
        CheckConstraint("status IN ('requested', 'claimed', 'suspended', 'awaiting', 'completed', 'denied')"),
        nullable=False,
    ),
    Column("is_error", Boolean, nullable=False, default=False),
    Column("output", CleanText, nullable=False, default=""),
    Column("metadata", Json, nullable=False),
    Column("owner", String(64)),
    Column("lease_until", BigInteger),
    Column("created_at", UtcMillis, nullable=False),
    Column("settled_at", UtcMillis),
    UniqueConstraint("turn", "step", "index"),
    Index("tool_calls_conversation", "session", "generation"),
)

actions = Table(
    "actions",
    metadata,
    Column("call", ForeignKey("tool_calls.id"), primary_key=True),
    Column("session", String(40), nullable=False),  # of the run that the whole job began with
    Column("at", UtcMillis, nullable=False),
    Index("actions_session", "session", "at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("call", ForeignKey("tool_calls.id"), nullable=False),
    Column("status", String(16), nullable=False),
    Column("error_type", Label(64), nullable=False),
    Column("started_at", UtcMillis, nullable=False),
    Column("elapsed_ms", BigInteger, nullable=False),
    Column("grant", String(40)),
    Index("attempts_call", "call", "started_at"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("session", ForeignKey("sessions.id"), nullable=False),
    Column("turn", String(60), nullable=False),
    Column("run", String(60), nullable=False),
    Column("workflow_id", String(80), nullable=False),
    Column("call", ForeignKey("tool_calls.id"), nullable=False),
    Column("agent", Label(64), nullable=False),
    Column("tool", CleanText, nullable=False),
    Column("origin", Label(200), nullable=False),
    Column("arguments", Json, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("rule", CleanText, nullable=False),
    Column("layer", Label(40), nullable=False),
    Column("reason", CleanText, nullable=False),
    Column(
        "state",
        String(10),
        CheckConstraint("state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'consumed')"),
        nullable=False,
    ),
    Column("actor", CleanText),
    Column("unverified", Boolean, nullable=False, default=False),
    Column("note", CleanText),
    Column("created_at", UtcMillis, nullable=False),
    Column("expires_at", UtcMillis, nullable=False),
    Column("decided_at", UtcMillis),
    Column("consumed_at", UtcMillis),
    UniqueConstraint("call", "digest"),
    Index("approvals_state", "state", "created_at"),
    Index("approvals_turn", "turn", "state"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("approval", ForeignKey("approvals.id"), nullable=False),
    Column("verdict", String(10), nullable=False),
    Column("standing", String(16), nullable=False),  # only "decided" counted
    Column("actor", CleanText, nullable=False),
    Column("unverified", Boolean, nullable=False),
    Column("via", Label(20), nullable=False),
    Column("note", CleanText),
    Column("at", UtcMillis, nullable=False),
    Index("verdicts_approval", "approval", "id"),
)

live_rules = Table(
    "live_rules",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),  # one for all
    Column("text", CleanText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("at", UtcMillis, nullable=False),
)

event_counters = Table(
    "event_counters",
    metadata,
    Column("run", String(60), primary_key=True),
    Column("last", BigInteger, nullable=False),
)

run_events = Table(
    "run_events",
    metadata,
    Column("run", String(60), primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("type", String(40), nullable=False),
    Column("ts", UtcMillis, nullable=False),
    Column("data", Json, nullable=False),
)
