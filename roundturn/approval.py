"""An approval is a durable question to a person: its states, what answers it, and what the answer meant."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from roundturn.call import CallContext
from roundturn.jsontext import digest

State = Literal["pending", "approved", "denied", "expired", "cancelled", "consumed"]
Verdict = Literal["approve", "deny"]
DECIDED: dict[Verdict, State] = {"approve": "approved", "deny": "denied"}


@dataclass(frozen=True)
class NewApproval:
    session: str
    turn: str
    run: str
    workflow_id: str
    call: str
    agent: str
    tool: str
    origin: str
    arguments: dict[str, Any]
    digest: str
    rule: str
    layer: str
    reason: str


@dataclass(frozen=True)
class ApprovalRow:
    """One request. `arguments` are what a person sees; `digest` binds the exact ones, with session, call and tool.

    `rule`, `layer`, `reason`: who asked for a person and why. `unverified`: nobody checked the actor's name.
    `consumed_at` is set by the transaction that claims the call for running.
    """

    id: str
    session: str
    turn: str
    run: str
    workflow_id: str
    call: str
    agent: str
    tool: str
    origin: str
    arguments: dict[str, Any]
    digest: str
    rule: str
    layer: str
    reason: str
    state: State
    created_at: datetime
    expires_at: datetime
    actor: str | None = None
    unverified: bool = False
    note: str | None = None
    decided_at: datetime | None = None
    consumed_at: datetime | None = None


@dataclass(frozen=True)
class Answer:
    """What somebody said to a request. `via`: the way it came. `digest`: of what the person was shown, or its beginning.

    `unverified`: nobody checked that the actor is who they say. A `note` goes to the model with a refusal.
    """

    verdict: Verdict
    actor: str
    unverified: bool
    via: str
    note: str | None = None
    digest: str | None = None


Standing = Literal["decided", "repeated", "contradicted", "late", "cancelled", "unknown", "changed"]


@dataclass(frozen=True)
class VerdictOutcome:
    """What one answer did. Only `decided` changed anything; `row` is what holds now (None: no such approval)."""

    standing: Standing
    row: ApprovalRow | None


class SignalledVerdict(BaseModel, frozen=True, extra="ignore"):
    """The payload of a plain Temporal signal `verdict`; nobody has verified the actor (design section 6)."""

    approval_id: str = Field(max_length=64)
    verdict: Verdict
    actor: str = Field(default="", max_length=200)


def standing_of(row: ApprovalRow, verdict: Verdict) -> Standing:
    """How a verdict stands to a row that is no longer pending: first decision wins (P39, P42, P47)."""
    match row.state:
        case "expired":
            return "late"
        case "cancelled":
            return "cancelled"
        case "approved" | "consumed":
            return "repeated" if verdict == "approve" else "contradicted"
        case "denied":
            return "repeated" if verdict == "deny" else "contradicted"
        case "pending":
            return "decided"


def refusal_text(row: ApprovalRow) -> str:
    """What the model reads when the answer was not yes; says what happened and no more (P42, P50)."""
    match row.state:
        case "denied":
            because = f": {row.note}" if row.note else ""
            return f"A person refused this call{because}. It was not run; do not try to reach the same effect by another way."
        case "expired":
            return f"Nobody answered the request to run this call before it expired ({row.expires_at:%Y-%m-%d %H:%M} UTC). It was not run."
        case _:
            return "The request to run this call was cancelled. It was not run."


def binding_digest(ctx: CallContext) -> str:
    """What a yes is for, whole: another session, call, tool or argument is another question (P37, M-25)."""
    return digest(
        {
            "session": ctx.session.session,
            "call": ctx.tool_call_id,
            "origin": ctx.spec.origin if ctx.spec else "",
            "tool": ctx.tool_name,
            "arguments": dict(ctx.arguments),
        }
    )
