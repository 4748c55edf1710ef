"""Ports as plain objects, tools that count, and one call on its way."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from roundturn import ids, middleware
from roundturn.approval import ApprovalRow, NewApproval, State
from roundturn.call import Attempt, CallContext, Middleware, SessionRef, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.ledger import FINAL, CallRow, Claim, Outcome
from roundturn.registry import ToolRegistry
from roundturn.rules import Policy, RuleContext
from roundturn.store import Store
from roundturn.tool import BaseTool, Effect, ToolContext, ToolResult

SESSION = ids.session_id(b"0" * 16)
TURN = ids.turn_id(SESSION, 1)
CALL = ids.call_id(TURN, 0, 0)
OPEN = Policy()
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Input(BaseModel):
    text: str = "none"
    count: int = 1


class Change(BaseTool):
    """Changes something: remembers what it was run with."""

    name: ClassVar[str] = "change"
    category: ClassVar[str] = "tests"
    description: ClassVar[str] = "Changes something."
    input_model: ClassVar[type[BaseModel]] = Input

    def __init__(self, output: str = "changed", fault: BaseException | None = None) -> None:
        self.output = output
        self.fault = fault
        self.runs: list[Input] = []

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        self.runs.append(arguments)
        if self.fault is not None:
            raise self.fault
        return ToolResult(output=self.output)


class Look(Change):
    name: ClassVar[str] = "look"
    effect: ClassVar[Effect] = Effect.PURE


@dataclass
class FakeLedger:
    """One call. `refuse` writes fail first, as a locked store would."""

    row: CallRow
    refuse: int = 0
    granted: set[str] = field(default_factory=set)
    audited: list[Attempt] = field(default_factory=list)
    claims: list[tuple[str, timedelta | None, str | None]] = field(default_factory=list)
    forced: Claim | None = None

    def _open(self) -> None:
        if self.refuse:
            self.refuse -= 1
            raise Unavailable("locked")

    async def read(self, call: str) -> CallRow | None:
        self._open()
        return self.row

    async def claim(
        self, call: str, owner: str, lease: timedelta | None, grant: str | None, digest: str
    ) -> Claim:
        self._open()
        self.claims.append((owner, lease, grant))
        if self.forced is not None:
            return self.forced
        if self.row.status in FINAL:
            return "final"
        if self.row.status == "claimed":
            return "won" if self.row.owner == owner else "busy"
        if lease is not None:
            self.row = replace(self.row, status="claimed", owner=owner, lease_live=True)
        return "won"

    async def renew(self, call: str, owner: str, lease: timedelta) -> bool:
        return self.row.owner == owner

    async def settle(self, call: str, owner: str, outcome: Outcome, attempt: Attempt) -> CallRow:
        self._open()
        self.audited.append(attempt)
        theirs = self.row.status == "claimed" and self.row.owner != owner
        if self.row.status not in FINAL and not theirs:
            self.row = replace(
                self.row,
                status=outcome.status,
                output=outcome.output,
                is_error=outcome.is_error,
                metadata=outcome.metadata,
            )
        return self.row

    async def settle_unknown(self, call: str, owner: str, attempt: Attempt) -> CallRow:
        return await self.settle(call, owner, Outcome("completed", "unknown", True), attempt)

    async def audit(self, call: str, attempt: Attempt) -> None:
        self._open()
        self.audited.append(attempt)


@dataclass
class FakeApprovals:
    rows: dict[str, ApprovalRow] = field(default_factory=dict)
    stopping: bool = False

    async def request(self, wanted: NewApproval, ttl: timedelta) -> ApprovalRow | None:
        for row in self.rows.values():
            if (row.call, row.digest) == (wanted.call, wanted.digest):
                return row
        if self.stopping:
            return None
        made = f"ap_{len(self.rows)}"
        self.rows[made] = ApprovalRow(
            **vars(wanted), id=made, state="pending", created_at=NOW, expires_at=NOW + ttl
        )
        return self.rows[made]

    async def read(self, approval: str) -> ApprovalRow | None:
        return self.rows.get(approval)

    def answer(self, approval: str, state: State, note: str | None = None) -> None:
        self.rows[approval] = replace(self.rows[approval], state=state, note=note)


@dataclass
class FakeActions:
    free_at: datetime | None = None
    reserved: list[tuple[str, int]] = field(default_factory=list)

    async def reserve(self, call: str, limit: int) -> datetime | None:
        self.reserved.append((call, limit))
        return self.free_at


@dataclass
class FakeBlobs:
    fault: Exception | None = None
    kept: list[bytes] = field(default_factory=list)

    async def put(self, content: bytes) -> str:
        if self.fault is not None:
            raise self.fault
        self.kept.append(content)
        return f"digest{len(self.kept)}"

    async def get(self, digest: str) -> bytes | None:
        return None


async def hushed(text: str) -> str:
    return text.replace("hush", "***")


async def seen(arguments: Any) -> Any:
    return {**arguments, "seen": True}


@dataclass
class Clock:
    at: datetime = NOW

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=250)
        return self.at


class Bench:
    """The whole chain around some tools, on ports that are plain objects."""

    def __init__(
        self, *tools: BaseTool, extra: tuple[Middleware, ...] = (), budget_bytes: int = 2_000
    ) -> None:
        self.ledger = FakeLedger(call_row())
        self.approvals = FakeApprovals()
        self.blobs = FakeBlobs()
        self.actions = FakeActions()
        self.registry = ToolRegistry()
        for tool in tools:
            self.registry.register(tool)
        ports: dict[str, Any] = dict.fromkeys(
            ("sessions", "inbox", "turns", "transcript", "runs", "live_rules", "journal")
        )
        middleware.install(
            self.registry,
            Store(
                ledger=self.ledger, approvals=self.approvals, actions=self.actions, blobs=self.blobs, **ports
            ),  # type: ignore[arg-type]
            approval_ttl=timedelta(hours=1),
            result_budget_bytes=budget_bytes,
            max_actions_per_hour=10,
            redact=seen,
            mask=hushed,
            clock=Clock(),
            extra=extra,
        )
        self._attempts = 0

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, policy: Policy = OPEN, **changes: Any
    ) -> ToolExecutionResult:
        self._attempts += 1
        ctx = context(tool, arguments, policy, attempt=f"attempt{self._attempts}", **changes)
        return await self.registry.execute(ctx.with_(spec=changes.get("spec", self.registry.spec(tool))))


def call_row(**changes: Any) -> CallRow:
    row = CallRow(
        CALL,
        SESSION,
        TURN,
        0,
        0,
        "change",
        "{}",
        Effect.ONCE,
        10,
        False,
        "requested",
        False,
        "",
        {},
        None,
        False,
    )
    return replace(row, **changes)


def context(
    tool: str, arguments: Mapping[str, Any] | None = None, policy: Policy = OPEN, **changes: Any
) -> CallContext:
    ctx = CallContext(
        tool_call_id=CALL,
        tool_name=tool,
        arguments=arguments or {},
        session=SessionRef(SESSION, TURN, TURN, "default"),
        workdir=Path("/work"),
        visible_tool_names=("change", "look"),
        rules=RuleContext("default", (policy.layer,)),
        attempt="attempt",
    )
    return ctx.with_(**changes)


async def done(ctx: CallContext) -> ToolExecutionResult:
    """A terminal that is always content."""
    return ToolExecutionResult.completed(ToolResult(output="done"))
