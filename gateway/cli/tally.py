"""What the journal of one run adds up to: its calls, what it waits for, what it does now, what it has used."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gateway.cli.text import clock, revealed, row_of
from roundturn.event import RUN_ENDED

if TYPE_CHECKING:
    from roundturn.event import RunEvent


@dataclass(frozen=True)
class Asked:
    """A tool call as the journal shows it; `shown` is one masked line."""

    tool: str
    effect: str
    shown: str


@dataclass
class Used:
    """Tokens; None when no endpoint has counted."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    def add(self, counted: "dict[str, Any] | Used") -> None:
        given = vars(counted) if isinstance(counted, Used) else counted
        for name, had in vars(self).items():
            if given.get(name) is not None:
                setattr(self, name, (had or 0) + given[name])

    @property
    def total(self) -> int:
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass
class Tally:
    """Fed every event of one run in order, from the first."""

    text: str = ""  # of the message
    started: datetime | None = None
    changed: datetime | None = None  # when what it does now began
    ended: datetime | None = None
    state: str = "queued"
    reason: str = ""
    model_calls: int = 0
    used: Used = field(default_factory=Used)
    calls: dict[str, Asked] = field(default_factory=dict)
    open_calls: dict[str, None] = field(default_factory=dict)  # in their order
    awaiting: set[str] = field(default_factory=set)  # calls that wait for a subagent
    limited_until: datetime | None = None  # the endpoint asked for it
    unknown: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)  # approval -> call
    waited: timedelta = timedelta(0)
    turns: list[str] = field(default_factory=list)
    delivered: list[str] = field(
        default_factory=list
    )  # the runs of subagents whose results a turn began with
    in_turn: bool = False
    subagents: dict[str, str] = field(default_factory=dict)  # run -> agent, of those that have not ended
    _waiting_since: datetime | None = None

    def add(self, event: "RunEvent") -> None:
        data = event.data
        self.changed = event.ts
        match event.type:
            case "message.accepted":
                self.text = str(data.get("text", ""))
            case "turn.started":
                self.started = self.started or event.ts
                self.state, self.in_turn = "running", True
                self.turns.append(str(data.get("turn", event.run)))
                self.delivered += data.get("delivers") or []
            case "model.limited":
                self.limited_until = datetime.fromisoformat(data["until"])
            case "model.replied":
                self.limited_until = None
                self.model_calls += 1
                self.used.add(data.get("usage", {}))
            case "tool.requested":
                self.calls[data["call"]] = Asked(data["tool"], data["effect"], data["shown"])
                self.open_calls[data["call"]] = None
            case "tool.settled":
                self._settled(data)
            case "approval.requested":
                self._waiting_since = self._waiting_since or event.ts
                self.waiting[data["approval_id"]] = data["call"]
            case "approval.decided" | "approval.expired" | "approval.cancelled":
                self._answered(data["approval_id"], event.ts)
            case "subagent.spawned":
                self.subagents[data["run"]] = data["agent"]
            case "subagent.awaited":
                self.awaiting.add(data["call"])
            case "subagent.ended":
                self.subagents.pop(data["run"], None)
            case "turn.ended":
                self.in_turn = False
            case _ if event.type == RUN_ENDED:
                self.state, self.reason, self.ended = data["state"], data.get("reason", ""), event.ts

    def tool(self, data: dict[str, Any]) -> str:
        asked = self.calls.get(data["call"])
        return asked.tool if asked else str(data.get("tool", ""))

    def tell(self, call: str, shown: str) -> None:
        """In other words than the journal's."""
        if call in self.calls:
            self.calls[call] = replace(self.calls[call], shown=shown)

    def told(self, call: str) -> str:
        """Tool and what it was about, as a person reads it."""
        asked = self.calls.get(call)
        return row_of(f"{asked.tool} {asked.shown}") if asked else call

    def doing(self) -> str:
        """What the run is at, in a few words for a person who waits."""
        if self.ended:
            return self.state
        if not self.started:
            return "waiting for a worker"
        idle = {*self.waiting.values(), *self.awaiting}
        at_work = [call for call in self.open_calls if call not in idle]
        if len(at_work) == 1:
            return self.told(at_work[0])
        if at_work:
            return ", ".join(sorted({revealed(self.tool({"call": call})) for call in at_work}))
        if self.waiting:
            return "waiting for a person"
        if self.in_turn and not self.awaiting:
            limited = self.limited_until
            return f"the endpoint wants a rest until {clock(limited)}" if limited else "the model is thinking"
        if self.subagents:
            many = len(self.subagents)
            return f"waiting for {many} subagent{'' if many == 1 else 's'}"
        return "between two turns"

    def _settled(self, data: dict[str, Any]) -> None:
        self.open_calls.pop(data["call"], None)
        self.awaiting.discard(data["call"])
        if data.get("error_type") == "outcome_unknown":
            self.unknown.append(data["call"])

    def _answered(self, approval: str, at: datetime) -> None:
        self.waiting.pop(approval, None)
        if not self.waiting and self._waiting_since is not None:
            self.waited += at - self._waiting_since
            self._waiting_since = None
