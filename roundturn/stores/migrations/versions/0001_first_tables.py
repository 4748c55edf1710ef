"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "event_counters",
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "run_events",
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "offset"),
    )
    op.create_table(
        "snapshots",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("client_key", sa.String(length=200), nullable=True),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("action_dir", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("snapshot", sa.String(length=64), nullable=True),
        sa.Column("last_turn", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("parent", sa.String(length=40), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("entry", sa.String(length=64), nullable=False),
        sa.Column("run_mode", sa.String(length=5), nullable=False),
        sa.CheckConstraint("run_mode IN ('build', 'plan')"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["snapshot"],
            ["snapshots.digest"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("client_key"),
    )
    op.create_index("sessions_parent", "sessions", ["parent"], unique=False)
    op.create_table(
        "entries",
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("turn", sa.String(length=60), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("calls", sa.Text(), nullable=False),
        sa.Column("finish", sa.String(length=10), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint("role IN ('user', 'assistant', 'system')"),
        sa.PrimaryKeyConstraint("session", "generation", "seq"),
    )
    op.create_index("entries_reply", "entries", ["turn", "step", "role"], unique=False)
    op.create_table(
        "inbox",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("turn", sa.String(length=60), nullable=False),
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("rung", sa.Boolean(), nullable=False),
        sa.Column("failed_starts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint("kind IN ('message', 'results')"),
        sa.CheckConstraint("state IN ('held', 'waiting', 'taken', 'done', 'failed')"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session", "key"),
        sa.UniqueConstraint("turn"),
    )
    op.create_index("inbox_open", "inbox", ["session", "state", "id"], unique=False)
    op.create_index("inbox_run", "inbox", ["run", "state"], unique=False)
    op.create_index("inbox_state", "inbox", ["state", "created_at"], unique=False)
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.String(length=90), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("turn", sa.String(length=60), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("effect", sa.String(length=5), nullable=False),
        sa.Column("limit_ms", sa.BigInteger(), nullable=False),
        sa.Column("brief", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("is_error", sa.Boolean(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint("effect IN ('pure', 'keyed', 'once')"),
        sa.CheckConstraint(
            "status IN ('requested', 'claimed', 'suspended', 'awaiting', 'completed', 'denied')"
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("turn", "step", "index"),
    )
    op.create_index("tool_calls_conversation", "tool_calls", ["session", "generation"], unique=False)
    op.create_table(
        "turns",
        sa.Column("id", sa.String(length=60), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("stop_origin", sa.String(length=200), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("checked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'completed', 'awaiting_user', 'incomplete', 'cancelled', 'failed')"
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("turns_running", "turns", ["state", "started_at"], unique=False)
    op.create_index("turns_session", "turns", ["session", "state"], unique=False)
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("turn", sa.String(length=60), nullable=False),
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("workflow_id", sa.String(length=80), nullable=False),
        sa.Column("call", sa.String(length=90), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=200), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("layer", sa.String(length=40), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("unverified", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("consumed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["call"],
            ["tool_calls.id"],
        ),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint("state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'consumed')"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("call", "digest"),
    )
    op.create_index("approvals_state", "approvals", ["state", "created_at"], unique=False)
    op.create_index("approvals_turn", "approvals", ["turn", "state"], unique=False)
    op.create_table(
        "actions",
        sa.Column("call", sa.String(length=90), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call"], ["tool_calls.id"]),
        sa.PrimaryKeyConstraint("call"),
    )
    op.create_index("actions_session", "actions", ["session", "at"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("call", sa.String(length=90), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error_type", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("elapsed_ms", sa.BigInteger(), nullable=False),
        sa.Column("grant", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(
            ["call"],
            ["tool_calls.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("attempts_call", "attempts", ["call", "started_at"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=60), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("root", sa.String(length=60), nullable=False),
        sa.Column("parent_run", sa.String(length=60), nullable=True),
        sa.Column("parent_session", sa.String(length=40), nullable=True),
        sa.Column("call", sa.String(length=90), nullable=True),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("max_result_chars", sa.Integer(), nullable=False),
        sa.Column("awaited_by", sa.String(length=90), nullable=True),
        sa.Column("discarded", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["call"],
            ["tool_calls.id"],
        ),
        sa.ForeignKeyConstraint(
            ["session"],
            ["sessions.id"],
        ),
        sa.CheckConstraint(
            "state IN ('active', 'completed', 'awaiting_user', 'incomplete', 'cancelled', 'failed')"
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("call"),
    )
    op.create_index("runs_parent", "runs", ["parent_run", "state"], unique=False)
    op.create_index("runs_parent_session", "runs", ["parent_session", "state"], unique=False)
    op.create_index("runs_root", "runs", ["root", "created_at"], unique=False)
    op.create_table(
        "completions",
        sa.Column("run", sa.String(length=60), nullable=False),
        sa.Column("parent_run", sa.String(length=60), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("delivery", sa.String(length=10), nullable=False),
        sa.Column("turn", sa.String(length=60), nullable=True),
        sa.Column("collected_by", sa.String(length=90), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"],
            ["runs.id"],
        ),
        sa.CheckConstraint(
            "delivery IN ('waiting', 'taken', 'delivered', 'collected', 'discarded', 'abandoned')"
        ),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_index("completions_delivery", "completions", ["delivery", "created_at"], unique=False)
    op.create_index("completions_parent", "completions", ["parent_run", "delivery"], unique=False)
    op.create_index("completions_turn", "completions", ["turn"], unique=False)
    op.create_table(
        "verdicts",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("approval", sa.String(length=40), nullable=False),
        sa.Column("verdict", sa.String(length=10), nullable=False),
        sa.Column("standing", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("unverified", sa.Boolean(), nullable=False),
        sa.Column("via", sa.String(length=20), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["approval"],
            ["approvals.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("verdicts_approval", "verdicts", ["approval", "id"], unique=False)
    op.create_table(
        "live_rules",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1"),
        sa.PrimaryKeyConstraint("id"),
    )
