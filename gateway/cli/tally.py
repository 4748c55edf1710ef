"""What a run's events add up to: calls by their ids, what is open, what must be looked at, what was waited for."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from roundturn.event import RunEvent


@dataclass(frozen=True)
class Asked:
    """A tool call as the journal shows it; `shown` is one masked line."""

    tool: str
    effect: str
    shown: str


@dataclass
class Tally:
    """Fed every event of one run in order, from the first."""

    started: bool = False
    model_calls: int = 0
    calls: dict[str, Asked] = field(default_factory=dict)
    open_calls: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)  # approval -> call
    waited: timedelta = timedelta(0)
    _waiting_since: datetime | None = None

    def add(self, event: RunEvent) -> None:
        data = event.data
        match event.type:
            case "turn.started":
                self.started = True
            case "model.replied":
                self.model_calls += 1
            case "tool.requested":
                self._requested(data)
            case "tool.settled":
                self._settled(data)
            case "approval.requested":
                self._waiting_since = self._waiting_since or event.ts
                self.waiting[data["approval_id"]] = data["call"]
            case "approval.decided" | "approval.expired" | "approval.cancelled":
                self._answered(data["approval_id"], event.ts)

    def tool(self, data: dict[str, Any]) -> str:
        asked = self.calls.get(data["call"])
        return asked.tool if asked else str(data.get("tool", ""))

    def doing(self) -> str:
        """What the run is at, in a few words for a person who waits."""
        if not self.started:
            return "waiting for a worker"
        at_work = self.open_calls - set(self.waiting.values())  # a call that only reads is not announced
        if at_work:
            return f"running {', '.join(sorted({self.tool({'call': call}) for call in at_work}))}"
        return "waiting for a person" if self.waiting else "the model is thinking"

    def _requested(self, data: dict[str, Any]) -> None:
        self.calls[data["call"]] = Asked(data["tool"], data["effect"], data["shown"])
        self.open_calls.add(data["call"])

    def _settled(self, data: dict[str, Any]) -> None:
        self.open_calls.discard(data["call"])
        if data.get("error_type") == "outcome_unknown":
            self.unknown.append(data["call"])

    def _answered(self, approval: str, at: datetime) -> None:
        self.waiting.pop(approval, None)
        if not self.waiting and self._waiting_since is not None:
            self.waited += at - self._waiting_since
            self._waiting_since = None
