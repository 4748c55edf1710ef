"""Runs histories again with the workflow code of this installation, and says where that code would do something else."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.json_format import ParseError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from roundturn.errors import Unavailable, UsageError
from workflows.wire import WORKFLOWS, plugin

# What Temporal's core says of a history that the code does not follow, in the words of temporalio 1.35.
_SAID = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_WHERE = re.compile(r"HistoryEvent\(id: (\d+), \w+\)")
_MACHINE = re.compile(r"([A-Z][\w ]+?) machine does not handle this event")
_PREFIX = "[TMPRL1100] Nondeterminism error: "
CODE_DID = {
    "Activity": "runs an activity",
    "Timer": "starts a timer",
    "Child workflow": "starts a child workflow",
    "Signal external WF": "signals another workflow",
    "Continue as new workflow": "continues as new",
    "Complete workflow": "ends",
    "Fail workflow": "fails",
    "Cancel workflow": "ends as cancelled",
}
CLOSED = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}
LONGEST_SAID = 500


@dataclass(frozen=True)
class Difference:
    """`event` is its number in the history, None when it is not known; `recorded` is what it says there."""

    event: int | None
    recorded: str
    code: str
    hint: str


@dataclass(frozen=True)
class Replayed:
    """One run. `difference` is None when the code does what the history says, as far as it goes."""

    workflow: str
    run: str
    type: str
    events: int
    closed: bool
    difference: Difference | None


def read_history(path: Path) -> WorkflowHistory:
    """A history in Temporal's JSON, from its command line, its pages or `to_json`. Raises `UsageError`."""
    try:
        history = WorkflowHistory.from_json(path.stem, path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", "name a file or a workflow id") from None
    except (ValueError, TypeError, AttributeError, ParseError) as fault:
        raise UsageError(
            f"{path} is no history in Temporal's JSON: {str(fault)[:200]}",
            "make one with: temporal workflow show --workflow-id ID --output json",
        ) from None
    # Temporal's core waits for ever on a history without its beginning, and speaks of defects in one with gaps.
    numbers = [event.event_id for event in history.events]
    if not numbers or numbers != list(range(1, len(numbers) + 1)) or not _begins(history.events[0]):
        raise UsageError(f"{path} is no whole history", "its events begin with the start and have no gaps")
    started = history.events[0].workflow_execution_started_event_attributes
    return WorkflowHistory(started.workflow_id or history.workflow_id, history.events)


def _begins(first: HistoryEvent) -> bool:
    return bool(first.workflow_execution_started_event_attributes.original_execution_run_id)


async def fetch(client: Client, workflow: str) -> list[WorkflowHistory]:
    """Every run of the id that the server has, oldest first. Raises `Unavailable`."""
    quoted = workflow.replace("\\", "\\\\").replace("'", "\\'")
    try:
        runs = {run.run_id: run.start_time async for run in client.list_workflows(f"WorkflowId='{quoted}'")}
        latest = await client.get_workflow_handle(workflow).describe()  # a listing may be late by a second
        runs[latest.run_id] = latest.start_time
        handles = [
            client.get_workflow_handle(workflow, run_id=run) for run in sorted(runs, key=runs.__getitem__)
        ]
        return [await handle.fetch_history() for handle in handles]
    except RPCError as fault:
        if fault.status is RPCStatusCode.NOT_FOUND:
            return []
        raise Unavailable(
            f"Temporal does not answer: {fault.message}"[:300], "is the server up? see: roundturn dev"
        ) from fault


async def replay(
    histories: Sequence[WorkflowHistory], *, sandboxed: bool, workflows: Sequence[type] = WORKFLOWS
) -> list[Replayed]:
    """Runs nothing but workflow code: no activity, no store, no server."""
    replayer = Replayer(
        workflows=workflows,
        plugins=[plugin(sandboxed=sandboxed)],
        # Its core would write what it finds on standard output, where our answer goes.
        runtime=Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="off"))),
    )
    async with replayer.workflow_replay_iterator(_begun(histories)) as results:
        failures = {id(result.history): result.replay_failure async for result in results}
    return [_replayed(history, failures.get(id(history)), workflows) for history in histories]


def _replayed(history: WorkflowHistory, failure: Exception | None, workflows: Sequence[type]) -> Replayed:
    return Replayed(
        workflow=history.workflow_id,
        run=history.run_id,
        type=_type_recorded(history),
        events=len(history.events),
        closed=history.events[-1].event_type in CLOSED,
        difference=None if failure is None else _difference(failure, history, workflows),
    )


async def _begun(histories: Sequence[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    """A run that no worker has seen has nothing to differ from, and the replayer would wait for ever for its first task."""
    for history in histories:
        if any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED for event in history.events):
            yield history


def _difference(failure: Exception, history: WorkflowHistory, workflows: Sequence[type]) -> Difference:
    said = _said(failure)
    if isinstance(failure, NondeterminismError):
        where, machine = _WHERE.search(said), _MACHINE.search(said)
        number = int(where[1]) if where else 0
        did = CODE_DID.get(machine[1] if machine else "")
        return Difference(
            event=number or None,
            recorded=described(history.events[number - 1]) if 0 < number <= len(history.events) else "",
            code=f"{did} ({said})" if did else said,
            hint="keep what open runs have done: put the change behind workflow.patched(…)",
        )
    kind = _type_recorded(history)
    if kind not in {_type_of(workflow) for workflow in workflows}:
        return Difference(None, "", f"has no workflow type {kind}", "replay it with the program that ran it")
    return Difference(None, "", f"fails: {said}", "the same command with --verbose shows where")


def _said(failure: Exception) -> str:
    found = _SAID.search(str(failure))
    said = json.loads(f'"{found[1]}"', strict=False) if found else str(failure)
    return str(said).removeprefix(_PREFIX)[:LONGEST_SAID]


def _type_recorded(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name


def _type_of(workflow: type) -> str:
    return str(getattr(workflow, "__temporal_workflow_definition").name)


def described(event: HistoryEvent) -> str:
    """The event's type, and what it was about where that has a name: `ActivityTaskScheduled call_tool`."""
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").title().replace("_", "")
    match event.WhichOneof("attributes"):
        case "activity_task_scheduled_event_attributes":
            about = event.activity_task_scheduled_event_attributes.activity_type.name
        case "start_child_workflow_execution_initiated_event_attributes":
            about = event.start_child_workflow_execution_initiated_event_attributes.workflow_type.name
        case "marker_recorded_event_attributes":
            about = _beside(event)
        case _:
            about = ""
    return f"{name} {about}".rstrip()


def _beside(event: HistoryEvent) -> str:
    """The activity of a local activity's marker."""
    marker = event.marker_recorded_event_attributes
    for payload in marker.details["data"].payloads if "data" in marker.details else ():
        try:
            return str(json.loads(payload.data)["activity_type"])
        except (ValueError, KeyError, TypeError):
            break
    return marker.marker_name
