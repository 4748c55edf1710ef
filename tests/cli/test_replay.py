"""`replay` says before a deploy which runs the new code could not go on with."""

import os
import shutil
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.cli.conftest import CommandLine, Lines
from tests.conftest import OpenSystem
from tests.replay import stored
from tests.requirements import requirement
from tests.system import TemporalServer, scenario, step

PLAIN, PASS = (str(stored.path(name)) for name in ("turn-plain-answer", "reconcile-pass"))


def changed_installation(folder: Path) -> dict[str, str]:
    """The environment of a program whose reconciler makes two passes."""
    shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "workflows" / "reconcile.py"
    file.write_text(
        file.read_text().replace("await calls.reconcile()", "await calls.reconcile()\n        " * 2)
    )
    path = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT), path))}


@requirement("P105")
async def test_a_changed_workflow_is_code_8_with_the_event_what_the_code_does_and_what_to_do(
    alone: CommandLine, tmp_path: Path
) -> None:
    same = await alone("replay", PLAIN, PASS)
    assert (same.code, same.err) == (0, "")
    assert [line.split("\t")[2:] for line in same.out.splitlines()] == [
        ["Turn", "12", "replays", "-"],
        ["Reconcile", "11", "replays", "-"],
    ]
    changed = changed_installation(tmp_path / "changed")
    done = await alone("replay", PLAIN, PASS, also=changed)
    assert done.code == 8
    assert [line.split("\t")[4:] for line in done.out.splitlines()] == [["replays", "-"], ["differs", "11"]]
    assert "differs at event 11 of 11" in done.err
    assert "the history has  WorkflowExecutionCompleted" in done.err
    assert "the code         runs an activity" in done.err
    assert "workflow.patched" in done.err
    assert "temporalio" not in done.out + done.err
    machine = await alone("replay", PLAIN, PASS, "--json", also=changed)
    assert (machine.code, machine.err) == (8, "")
    fine, differs = machine.document["items"]
    assert (fine["replays"], fine["difference"], fine["closed"]) == (True, None, True)
    assert (differs["type"], differs["replays"], differs["difference"]["event"]) == ("Reconcile", False, 11)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no history"), ("[]", "no history"), ('{"events": [7]}', "no history"), ('{"events": []}', "no whole history"),
        ('{"events": [{"eventId": "1"}]}', "no whole history"), ('{"events": [{"eventId": "x"}]}', "no history"),
    ],
)  # fmt: skip
async def test_a_file_that_is_no_history_is_code_2(
    alone: CommandLine, tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "some.json"
    file.write_text(text)
    done = await alone("replay", str(file), "--json")
    assert (done.code, done.out, done.error["type"]) == (2, "", "usage")
    assert says in done.error["detail"]


async def test_a_history_with_a_gap_and_a_file_that_is_not_there_are_code_2(
    alone: CommandLine, tmp_path: Path
) -> None:
    lines = Path(PLAIN).read_text().splitlines()
    file = tmp_path / "gap.json"
    file.write_text("\n".join(lines[:4] + lines[5:]))
    assert (await alone("replay", str(file))).code == 2
    assert (await alone("replay", str(tmp_path / "none.json"))).code == 2


@requirement("P105")
async def test_runs_are_fetched_by_session_run_and_workflow_id_with_every_continuation(
    system: OpenSystem, line: Lines, tmp_path: Path
) -> None:
    server = TemporalServer(tmp_path, "limit.historyCount.suggestContinueAsNew=20")
    server.start()
    try:
        s = await system(
            scenario("many", *[step(("note_keyed", {"text": "a"}))] * 4, step(text="done")),
            scenario("asks", step(("note_once", {"text": "b"})), step(text="done")),
            server=server,
            policy={"ask": ["note_once"], "allow": ["*"]},
        )
        await s.start_worker()
        session = await s.session()
        first = await s.send("many", session)
        await s.ended(first)
        second = await s.send("asks", session)
        await s.pending(second)
        roundturn = line(s)
        whole = await roundturn("replay", session[:10], "--json")
        assert whole.code == 0, whole.err
        items = whole.document["items"]
        assert all(item["replays"] for item in items)
        runs = [item for item in items if item["workflow_id"] == f"turn/{first}"]
        assert len(runs) > 1
        assert [item["closed"] for item in items if item["workflow_id"] == f"turn/{second}"] == [False]
        assert items[0]["workflow_id"] == f"session/{session}"
        for target in (f"{session[2:10]}/1", first, f"turn/{first}", f"turn/{session[:9]}/1"):
            one = await roundturn("replay", target, "--json")
            assert [item["run_id"] for item in one.document["items"]] == [item["run_id"] for item in runs]
        waits = await roundturn("replay", second)
        assert waits.out.split("\t")[4] == "replays so far"
        unknown = await roundturn("replay", "reconcile/none-such", "--json")
        assert (unknown.code, unknown.error["type"]) == (2, "usage")
        for target in ("s_zzzz", f"{first}9"):
            assert (await roundturn("replay", target)).code == 2
        server.kill()
        away = await roundturn("replay", first, "--json")
        assert (away.code, away.error["type"]) == (7, "unavailable")
    finally:
        server.kill()
