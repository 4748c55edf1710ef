"""One tool call on its way through the chain: the context going in, the result coming back."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel

from roundturn.ledger import CallRow
from roundturn.rules import Decision, RuleContext
from roundturn.tool import FINDABLE, Directive, ToolResult, ToolSpec, directive_of

Status = Literal["completed", "denied", "suspended"]


@dataclass(frozen=True)
class SessionRef:
    """Whose call it is: ids and names only, never a live object (M-06)."""

    session: str
    turn: str
    run: str
    agent: str
    generation: int = 0


@dataclass(frozen=True)
class CallContext:
    """What every middleware sees (M-06); change it with `with_` and pass the copy to `next`.

    `arguments` is what the model sent, parsed; `arguments_error` says why it could not be parsed.
    `unlisted`: names that may be called though they are not shown.
    `parsed` is the validated input and `sent` what it was made of, set by the validation layer, which adds the defaults
    to `arguments`; `decision` is policy's word and `read_only` whether
    this call only reads, set by that layer. `grant` is the approval id that a person's yes left behind. `attempt`
    names this very try, unique over processes. `may_have_run`: an earlier try of a call that may be repeated was cut off.
    """

    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    session: SessionRef
    workdir: Path
    visible_tool_names: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    arguments_error: str = ""
    spec: ToolSpec | None = None
    parsed: BaseModel | None = None
    sent: Mapping[str, Any] | None = None
    rules: RuleContext | None = None
    decision: Decision | None = None
    read_only: bool = False
    grant: str | None = None
    attempt: str = ""
    may_have_run: bool = False

    @property
    def known_names(self) -> tuple[str, ...]:
        """What the model may be told of."""
        findable = self.metadata.get(FINDABLE)
        return (*self.visible_tool_names, *(spec.name for spec in (findable() if findable else ())))

    def with_(self, **changes: Any) -> Self:
        return replace(self, **changes)


MAY_HAVE_RUN = "may_have_run"  # of an attempt that asks a person: one before it was cut off
OUTCOME_UNKNOWN = "outcome_unknown"  # it may have run; nobody can tell, and it is not run again


class Suspension(BaseModel, frozen=True):
    """What a suspended call waits for, and until when at the longest."""

    approval: str
    expires_at: datetime


class ToolExecutionResult(BaseModel, frozen=True):
    """What the chain returns: one of three statuses, built only by the factories (M-07)."""

    status: Status
    result: ToolResult
    metadata: dict[str, Any] = {}
    suspension: Suspension | None = None

    @property
    def error_type(self) -> str:
        """Empty when nothing went wrong."""
        return str(self.metadata.get("error_type", ""))

    @property
    def directive(self) -> Directive | None:
        """What the tool asks of the workflow."""
        return directive_of(self.metadata)

    @classmethod
    def standing(cls, row: CallRow) -> "ToolExecutionResult":
        """Of a final row, whoever wrote it."""
        status: Status = "denied" if row.status == "denied" else "completed"
        result = ToolResult(output=row.output, is_error=row.is_error)
        return cls(status=status, result=result, metadata=dict(row.metadata))

    @classmethod
    def completed(cls, result: ToolResult, **metadata: Any) -> "ToolExecutionResult":
        return cls(status="completed", result=result, metadata=metadata)

    @classmethod
    def failed(cls, message: str, error_type: str, **metadata: Any) -> "ToolExecutionResult":
        """The tool was meant to run and did not succeed: completed, with an error for the model."""
        return cls.completed(ToolResult(output=message, is_error=True), error_type=error_type, **metadata)

    @classmethod
    def denied(cls, message: str, error_type: str, **metadata: Any) -> "ToolExecutionResult":
        """Refused before the tool: the model reads why and goes on (M-08)."""
        return cls(
            status="denied",
            result=ToolResult(output=message, is_error=True),
            metadata={"error_type": error_type, **metadata},
        )

    @classmethod
    def unknown(cls, why: str) -> "ToolExecutionResult":
        """Begun and not known to have ended (design section 1, decision 5)."""
        return cls.failed(
            f"Outcome unknown: {why} It may have run; look before doing it again.", OUTCOME_UNKNOWN
        )

    @classmethod
    def stopping(cls) -> "ToolExecutionResult":
        """Refused because a stop of the turn was accepted (I-02)."""
        return cls.denied("Not run: the turn is being stopped.", "turn_stopping")

    @classmethod
    def suspended(cls, approval: str, expires_at: datetime) -> "ToolExecutionResult":
        """Waits for a person; the turn pauses and calls again with the grant (M-09)."""
        waits = Suspension(approval=approval, expires_at=expires_at)
        return cls(status="suspended", result=ToolResult(output=""), suspension=waits)


@dataclass(frozen=True)
class Attempt:
    """One row of the audit: who tried which call when, and how it came back (M-15)."""

    id: str
    status: str
    error_type: str
    started_at: datetime
    elapsed_ms: int
    grant: str | None


Next = Callable[[CallContext], Awaitable[ToolExecutionResult]]
Middleware = Callable[[CallContext, Next], Awaitable[ToolExecutionResult]]
