"""Journals of an orchestrator and two subagents as they would be written, for views that need no running system."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.cli.tree import Tree
from roundturn.event import RunEvent

BEGAN = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
PARENT, LOGS, SETTINGS = "s_parent/1", "s_logs/1", "s_settings/1"


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


class Story:
    """Counts the offsets of each run."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def tell(self, of: str, seconds: float, type_: str, /, **data: Any) -> RunEvent:
        offset = sum(event.run == of for event in self.events) + 1
        self.events.append(RunEvent(of, offset, type_, at(seconds), data))
        return self.events[-1]

    def begin(self, run: str, seconds: float, text: str = "do it") -> None:
        self.tell(run, seconds, "message.accepted", text=text, position=0)
        self.tell(run, seconds, "turn.started", turn=run, delivers=[])

    def reply(self, run: str, seconds: float, *calls: tuple[str, str, str]) -> None:
        """`calls`: tool, effect and what is shown of it; their ids are of step 0, 1, …"""
        step = sum(event.run == run and event.type == "model.replied" for event in self.events)
        usage = {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 0}
        self.tell(run, seconds, "step.started", turn=run, step=step, model="m")
        said = {"finish": "calls" if calls else "stop", "calls": len(calls), "usage": usage}
        self.tell(run, seconds, "model.replied", turn=run, step=step, **said)
        for index, (tool, effect, shown) in enumerate(calls):
            call = f"{run}.{step}.{index}"
            self.tell(run, seconds, "tool.requested", call=call, tool=tool, effect=effect, shown=shown)

    def settle(self, run: str, seconds: float, call: str, tool: str, **more: Any) -> None:
        data = {"status": "completed", "is_error": False, "error_type": "", "elapsed_ms": 41} | more
        self.tell(run, seconds, "tool.settled", call=f"{run}.{call}", tool=tool, **data)

    def spawn(self, seconds: float, call: str, agent: str, run: str, title: str = "") -> None:
        session = run.rpartition("/")[0]
        data = {"call": f"{PARENT}.{call}", "agent": agent, "title": title, "session": session, "run": run}
        self.tell(PARENT, seconds, "subagent.spawned", **data)

    def end(self, run: str, seconds: float, state: str = "completed", reason: str = "") -> None:
        self.tell(run, seconds, "turn.ended", turn=run, state=state, reason=reason, steps=1)
        self.tell(run, seconds, "run.ended", state=state, reason=reason)


def incident() -> Story:
    """Until one subagent has ended, the other reads, and the orchestrator has ended its turn."""
    story = Story()
    story.begin(PARENT, 0, "Checkout fails")
    story.reply(
        PARENT, 1, ("spawn_subagent", "keyed", "log_analyst"), ("spawn_subagent", "keyed", "config_reviewer")
    )
    story.spawn(1.1, "0.0", "log_analyst", LOGS, "what the logs say")
    story.settle(PARENT, 1.2, "0.0", "spawn_subagent")
    story.spawn(1.2, "0.1", "config_reviewer", SETTINGS, "what the settings say")
    story.settle(PARENT, 1.2, "0.1", "spawn_subagent")
    story.begin(LOGS, 1.3, "Read the logs")
    story.begin(SETTINGS, 1.3, "Review the settings")
    story.reply(PARENT, 2)
    story.tell(PARENT, 2, "turn.ended", turn=PARENT, state="completed", reason="", steps=2)
    story.reply(SETTINGS, 3)
    story.end(SETTINGS, 3)
    story.reply(LOGS, 4, ("read_file", "pure", "logs/checkout.log"))
    return story


def asking() -> Story:
    """The orchestrator works on both results and waits for a person."""
    story = incident()
    story.settle(LOGS, 4.5, "0.0", "read_file")
    story.reply(LOGS, 5)
    story.end(LOGS, 5)
    ended = {"state": "completed", "reason": "", "shown": "it is the timeout"}
    for agent, run in (("log_analyst", LOGS), ("config_reviewer", SETTINGS)):
        session = run.rpartition("/")[0]
        story.tell(PARENT, 5, "subagent.ended", call="c", agent=agent, session=session, run=run, **ended)
    story.tell(PARENT, 8, "turn.started", turn="s_parent/2", delivers=[LOGS, SETTINGS])
    story.reply(PARENT, 9, ("write_file", "keyed", "config/checkout.toml"))
    story.tell(
        PARENT, 9, "approval.requested", approval_id="ap_7kq2mz9dxxxxxxxx", call=f"{PARENT}.2.0",
        tool="write_file", rule="side-effect", reason="", expires_at=at(3600).isoformat(),
    )  # fmt: skip
    return story


def grown(story: Story, agent: str = "orchestrator") -> Tree:
    tree = Tree(PARENT, agent)
    for event in story.events:
        tree.add(event)
    return tree
