"""One event of the journal as one line for people; what is new to this program is shown as it is."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from gateway.cli.words import clock, elapsed, one_line, short, tokens
from roundturn.event import RunEvent
from roundturn.jsontext import cut, dump

ROW_BYTES = 400


def summary(event: RunEvent) -> str:
    say = SAYINGS.get(event.type)
    try:
        line = say(event.data) if say else dump(event.data)
    except (KeyError, TypeError, ValueError):  # an event of another version
        line = dump(event.data)
    return cut(one_line(line), ROW_BYTES)


def place(call: str) -> str:
    """`2.0`: step and index of a call inside its run; steps count from 1 for people."""
    step, index = call.rsplit(".", 2)[1:]
    return f"{int(step) + 1}.{index}"


def _accepted(data: dict[str, Any]) -> str:
    ahead = f"behind {data['position']} · " if data["position"] else ""
    return f'{ahead}"{data["text"]}"'


def _replied(data: dict[str, Any]) -> str:
    usage = data["usage"]
    used = f"{tokens(usage['input_tokens'])} in {tokens(usage['output_tokens'])} out"
    return f"{data['finish']}  {data['calls']} tool calls  {used}"


def _settled(data: dict[str, Any]) -> str:
    took = f"  {elapsed(data['elapsed_ms'])}" if "elapsed_ms" in data else ""
    error = f"  {data['error_type']}" if data.get("error_type") else ""
    return f"{place(data['call'])}  {data['tool']}  {data['status']}{error}{took}"


def _requested(data: dict[str, Any]) -> str:
    return f"{place(data['call'])}  {data['tool']}  {data['shown']}  {data['effect']}"


def _approval(data: dict[str, Any]) -> str:
    return f"{short(data['approval_id'])}  {data['tool']}  until {expiry(data)}  rule {data['rule']}"


def expiry(data: dict[str, Any]) -> str:
    at = datetime.fromisoformat(data["expires_at"]).astimezone()
    return clock(at) if at.date() == datetime.now(at.tzinfo).date() else f"{at:%d %b %H:%M}"


SAYINGS: dict[str, Callable[[dict[str, Any]], str]] = {
    "message.accepted": _accepted,
    "turn.started": lambda data: "",
    "step.started": lambda data: f"step {data['step'] + 1}  model {data['model']}",
    "model.replied": _replied,
    "tool.requested": _requested,
    "tool.started": lambda data: f"{place(data['call'])}  {data['tool']}",
    "tool.settled": _settled,
    "approval.requested": _approval,
    "approval.decided": lambda data: f"{short(data['approval_id'])}  {data['state']} by {data['actor']}",
    "approval.expired": lambda data: short(data["approval_id"]),
    "approval.cancelled": lambda data: short(data["approval_id"]),
    "turn.stop_requested": lambda data: f"by {data['origin']}",
    "turn.ended": lambda data: f"{data['state']}  {data['reason']}".rstrip(),
}
