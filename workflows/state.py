"""All that a turn carries over continue-as-new, in one small model; what is not here is asked of SQL again."""

from datetime import datetime

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel

    from activities.inbox import CallOptions
    from activities.model import CallPlan
    from roundturn.approval import SignalledVerdict


class OpenCall(BaseModel):
    """A call of the current step that has no result yet; with an approval it waits for a person.

    `until`: it waits for a subagent, so long.
    """

    plan: CallPlan
    approval: str = ""
    expires_at: datetime | None = None
    until: datetime | None = None

    @property
    def waits(self) -> bool:
        return bool(self.approval) or self.until is not None


class TurnState(BaseModel):
    """`step`: the step that runs or comes next. `calls`: its open calls. `offers`: signalled verdicts not yet offered."""

    turn: str
    max_steps: int
    options: CallOptions
    step: int = 0
    calls: list[OpenCall] = []
    offers: list[SignalledVerdict] = []


class TurnStatus(BaseModel):
    """The answer to the query `status`."""

    phase: str
    step: int
    waiting_for: list[str] = []
