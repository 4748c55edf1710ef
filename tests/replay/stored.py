"""The stored histories: one file a run, Temporal's JSON with one event a line, and nothing in it of who recorded it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

FOLDER = Path(__file__).parent / "histories"
NOBODY = "recorded"
# Who did it, where, on which build; none of it is read by a replay.
PERSONAL = {
    "identity": NOBODY,
    "binaryChecksum": NOBODY,
    "buildId": NOBODY,
    "deploymentName": NOBODY,
    "workerInstanceKey": NOBODY,
    "stackTrace": "",
}
# The server's own counters and keys: they would only make the files longer.
NEEDLESS = {"taskId", "requestId", "historySizeBytes"}
STICKY = "TASK_QUEUE_KIND_STICKY"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def events(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path(name).read_text())["events"]
    return found


def history(name: str) -> WorkflowHistory:
    workflow_id = events(name)[0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(workflow_id, path(name).read_text())


def write(name: str, recorded: WorkflowHistory) -> None:
    lines = (json.dumps(impersonal(event), sort_keys=True) for event in recorded.to_json_dict()["events"])
    path(name).write_text('{"events": [\n' + ",\n".join(lines) + "\n]}\n")


def impersonal(value: Any) -> Any:
    """The same event for whoever recorded it, on whatever machine."""
    match value:
        case {"kind": kind, "name": _} if kind == STICKY:  # named after process and host
            return {**value, "name": NOBODY}
        case dict():
            return {
                key: PERSONAL.get(key, impersonal(inner))
                for key, inner in value.items()
                if key not in NEEDLESS
            }
        case list():
            return [impersonal(inner) for inner in value]
    return value


def strings(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)
        case str():
            yield value
