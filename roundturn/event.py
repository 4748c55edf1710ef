"""The journal's words: what is written down about a run, one typed event a fact."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Type = Literal[
    "message.accepted",
    "turn.started",
    "step.started",
    "model.replied",
    "model.limited",
    "tool.requested",
    "tool.started",
    "tool.settled",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "approval.cancelled",
    "turn.stop_requested",
    "run_mode.changed",
    "turn.ended",
    "subagent.spawned",
    "subagent.awaited",
    "subagent.ended",
    "run.ended",
]
TERMINAL: Type = "turn.ended"  # exactly one for each turn, whatever happened (P109)
RUN_ENDED: Type = "run.ended"  # exactly one for each run, its last event

RunState = Literal["completed", "awaiting_user", "incomplete", "cancelled", "failed"]
TurnState = Literal["running"] | RunState


@dataclass(frozen=True)
class NewEvent:
    """A fact on its way into the journal; the store gives it its offset and, unless `ts` is set, its time."""

    type: Type
    data: dict[str, Any] = field(default_factory=dict)
    ts: datetime | None = None


@dataclass(frozen=True)
class RunEvent:
    """A stored fact; `offset` is dense in its run, from 1."""

    run: str
    offset: int
    type: str
    ts: datetime
    data: dict[str, Any]
