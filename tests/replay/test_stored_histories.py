"""Every stored history replays on the code of today, whatever process does it, and names nobody (Q-05, P104)."""

import base64
import getpass
import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from gateway.replay import replay
from tests.architecture.source import ROOT, module, product
from tests.replay import stored
from tests.replay.scenes import STAGES
from tests.requirements import requirement
from workflows.wire import WORKFLOWS

MOST_BYTES = 32 * 1024
PLACES = re.compile(r"(?<![\w./-])(/[a-z_]+){2,}|/home/|Traceback|File \"|@|0x[0-9a-f]{6,}")


@requirement("Q-05", "P104", "P105")
@pytest.mark.parametrize("sandboxed", [True, False])
async def test_every_stored_history_replays_in_any_order_in_a_process_that_is_warm(sandboxed: bool) -> None:
    histories = [stored.history(name) for name in stored.names()]
    again = [*histories, *reversed(histories)]
    found = await replay(again, sandboxed=sandboxed)
    assert [(one.workflow, one.difference) for one in found if one.difference] == []
    assert len(found) == len(again)


@requirement("P104")
@pytest.mark.parametrize("seed", ["0", "1"])
def test_every_stored_history_replays_in_a_fresh_process_with_another_hash_seed(
    seed: str, tmp_path: Path
) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROUNDTURN_")}
    done = subprocess.run(
        [Path(sys.executable).parent / "roundturn", "replay", "--json", "--home", tmp_path,
         *(stored.path(name) for name in stored.names())],
        env={**clean, "PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(one["replays"] for one in json.loads(done.stdout)["items"]) == {True: len(stored.names())}


@requirement("Q-05")
def test_every_workflow_type_has_a_stored_history_and_every_type_in_the_tree_is_registered() -> None:
    registered = {str(getattr(workflow, "__temporal_workflow_definition").name) for workflow in WORKFLOWS}
    defined = {
        name
        for m in product()
        for name in re.findall(r'^@workflow\.defn\(name="(\w+)"', m.text, re.MULTILINE)
    }
    kinds = {
        stored.events(name)[0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"]
        for name in stored.names()
    }
    assert registered == defined == kinds
    assert sum(m.text.count("@workflow.defn") for m in product()) == len(registered)


def test_no_worker_has_a_list_of_workflows_of_its_own() -> None:
    assert re.findall(r"\bworkflows=(\w+|\[)", module("worker/build.py").text) == ["WORKFLOWS"]


def test_every_scene_that_is_recorded_has_its_histories_and_none_is_left_of_another() -> None:
    """A continued run's further histories have numbers: `name.1`, `name.2`."""
    assert {name.split(".")[0] for name in stored.names()} == {
        name for stage in STAGES for scene in stage.scenes for name in scene.names
    }


@pytest.mark.parametrize("name", stored.names())
def test_a_stored_history_is_small_and_says_nothing_of_who_recorded_it(name: str) -> None:
    text = stored.path(name).read_text()
    assert len(text.encode()) <= MOST_BYTES
    assert len(text.splitlines()) == len(stored.events(name)) + 2, "one event a line"
    events = stored.events(name)
    assert stored.impersonal(events) == events, "what is scrubbed once is scrubbed"
    for said in (*stored.strings(events), *decoded(events)):
        assert not PLACES.search(said), said
        for own in (socket.gethostname(), getpass.getuser(), str(Path.home())):
            assert not re.search(rf"(?<!\w){re.escape(own)}(?!\w)", said), said


def decoded(value: object) -> list[str]:
    """The payloads as text."""
    match value:
        case {"data": str(data)}:
            return [base64.b64decode(data).decode()]
        case dict():
            return [text for inner in value.values() for text in decoded(inner)]
        case list():
            return [text for inner in value for text in decoded(inner)]
    return []


def test_scrubbing_takes_out_the_machine_and_leaves_what_a_replay_reads() -> None:
    sticky = {"kind": "TASK_QUEUE_KIND_STICKY", "name": "41@host-0af3", "normalName": "main"}
    event = {
        "eventId": "3",
        "taskId": "1048",
        "attributes": {
            "identity": "41@host",
            "taskQueue": sticky,
            "workerVersion": {"buildId": "0af31c"},
            "failure": {"message": "no", "stackTrace": 'File "x.py"', "cause": {"stackTrace": "y"}},
            "sdkMetadata": {"coreUsedFlags": [1, 2]},
        },
    }
    assert stored.impersonal(event) == {
        "eventId": "3",
        "attributes": {
            "identity": "recorded",
            "taskQueue": {**sticky, "name": "recorded"},
            "workerVersion": {"buildId": "recorded"},
            "failure": {"message": "no", "stackTrace": "", "cause": {"stackTrace": ""}},
            "sdkMetadata": {"coreUsedFlags": [1, 2]},
        },
    }


async def test_a_run_that_no_worker_has_begun_has_nothing_to_differ_from() -> None:
    whole = stored.history("turn-plain-answer")
    (found,) = await replay([WorkflowHistory(whole.workflow_id, whole.events[:1])], sandboxed=False)
    assert (found.difference, found.closed) == (None, False)
