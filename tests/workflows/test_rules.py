"""One decision on every surface of the whole system: what is shown, what is called, in what mode and by whom."""

from pathlib import Path
from typing import Any

import pytest

from roundturn.errors import UsageError
from tests import rows
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step

LEAD = '+++\nname = "assistant"\ntier = "chat"\nsubagents = ["helper"]\ndisallowed_tools = ["note_keyed"]\n+++\nLead.\n'
HELPER = '+++\nname = "helper"\ndescription = "Helps."\n+++\nHelp.\n'


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "assistant.md").write_text(LEAD)
    (folder / "helper.md").write_text(HELPER)
    return folder


async def shown(s: System, request: int = 0) -> set[str]:
    body = (await s.model.requests())[request]["body"]
    return {tool["function"]["name"] for tool in body.get("tools", [])}


def record(id_: str, effect: str, match: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id_, "effect": effect, "match": match, "reason": f"because of {id_}", **more}


@requirement("R-01", "R-11", "R-15", "X-02", "M-19")
async def test_what_is_denied_is_neither_shown_nor_run_and_what_is_hidden_runs_when_it_is_named(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario(
            "go",
            step(
                ("note_once", {"text": "barred"}),
                ("note_keyed", {"text": "hidden"}),
                ("bash", {"command": "touch x"}),
                ("note_pure", {"text": "entry"}),
            ),
            step(text="{{results}}"),
        ),
        policy={
            "rules": [
                record("no-notes", "deny", {"name": "NOTE_O*"}),
                record("quiet", "hide", {"name": "note_keyed"}),
                record("waved", "auto_approve", {"name": "note_keyed"}),
                record("not-here", "deny", {"name": "note_pure"}, when={"entry": "library"}),
            ]
        },
        privileged_tools=[],
    )
    await s.start_worker()
    turn = await s.send("go")
    row = await s.ended(turn)
    names = await shown(s)
    assert names >= {"read_file", "note_pure"}
    assert not names & {"note_once", "note_keyed", "bash"}
    assert s.effects() == [f"note_keyed hidden {turn}.0.1"], "one is only hidden, the others are not run"
    assert not (s.workdir / "x").exists()
    for said in (
        "'no-notes' of the operator layer: because of no-notes",
        "'privileged' of the platform layer",
        "'not-here'",
    ):
        assert said in row.text
    metadata = (await s.client.store.ledger.read(f"{turn}.0.0")).metadata  # type: ignore[union-attr]
    assert (metadata["rule_id"], metadata["layer"], metadata["reason"]) == (
        "no-notes",
        "operator",
        "because of no-notes",
    )


@requirement("R-03", "R-04", "R-05", "P53")
async def test_a_subagent_has_the_operators_rules_and_its_own_and_not_its_parents(
    system: OpenSystem, agents: Path
) -> None:
    s = await system(
        scenario(
            "main job",
            step(
                ("note_keyed", {"text": "parent"}),
                ("spawn_subagent", {"agent": "helper", "task": "side job", "blocking": True}),
            ),
            step(text="{{results}}"),
        ),
        scenario(
            "side job",
            step(
                ("note_keyed", {"text": "child"}),
                ("note_once", {"text": "child"}),
                ("note_pure", {"text": "child"}),
            ),
            step(text="{{results}}"),
        ),
        agents_dir=agents,
        policy={
            "rules": [
                record("waved", "auto_approve", {"name": "note_*"}),
                record("no-once", "deny", {"name": "note_once"}, when={"entry": "library"}),
                record("no-pure", "deny", {"name": "note_pure"}, when={"entry": "subagent"}),
            ]
        },
    )
    await s.start_worker()
    run = await s.send("main job")
    row = await s.ended(run)
    (child,) = await s.client.store.runs.children(run)
    assert s.effects() == [f"note_keyed child {child.id}.0.0"]
    assert "'disallowed_tools note_keyed' of the agent layer" in row.text
    assert "'no-once' of the operator layer" in row.text, (
        "the entry of the whole job holds for delegated work too"
    )
    assert "'no-pure' of the operator layer" in row.text


@requirement("P-01", "P-02", "P-03", "R-16")
async def test_a_session_that_plans_only_reads_until_a_person_lets_it_build(
    system: OpenSystem, agents: Path
) -> None:
    calls = (("note_once", {"text": "a"}), ("note_pure", {"text": "b"}), ("bash", {"command": "touch x"}))
    s = await system(
        scenario("plan it", step(*calls), step(text="{{results}}")),
        scenario("build it", step(*calls[:2]), step(text="built")),
        scenario(
            "delegate",
            step(("spawn_subagent", {"agent": "helper", "task": "side job", "blocking": True})),
            step(text="{{results}}"),
        ),
        scenario("side job", step(*calls[:2]), step(text="{{results}}")),
        agents_dir=agents,
    )
    await s.start_worker()
    opened = await s.client.open_session("assistant", s.workdir, run_mode="plan")
    assert opened.run_mode == "plan"
    planned = await s.send("plan it", opened.id)
    row = await s.ended(planned)
    assert not await shown(s) & {"note_once", "note_keyed", "write_file"}
    assert await shown(s) >= {"read_file", "note_pure", "spawn_subagent", "bash"}, "bash may only read"
    assert "'plan' of the run mode layer" in row.text
    assert "a person switches it to build" in row.text
    assert [line.split()[0] for line in s.effects()] == ["note_pure"]
    assert not (s.workdir / "x").exists()

    delegated = await s.send("delegate", opened.id)
    row = await s.ended(delegated)
    assert "'plan' of the run mode layer" in row.text, "what is delegated plans as well"
    assert [line.split()[0] for line in s.effects()] == ["note_pure", "note_pure"]

    changed = await s.client.set_run_mode(opened.id, "build", "ada")
    assert changed.run_mode == "build"
    (child,) = await s.client.store.runs.children(delegated)
    below = await s.client.store.sessions.read(child.session)
    assert below is not None
    assert below.run_mode == "build"
    before = len(await s.model.requests())
    assert (await s.ended(await s.send("build it", opened.id))).text == "built"
    assert "note_once" in await shown(s, before)
    assert [line.split()[0] for line in s.effects()].count("note_once") == 1


@requirement("P-01", "P-03")
async def test_a_change_of_mode_is_told_and_holds_from_the_next_call_on(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a"})),
            step(("note_keyed", {"text": "b"})),
            step(text="{{results}}"),
        ),
        policy={"ask": ["note_once"], "allow": ["*"]},
    )
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await s.client.set_run_mode(turn.split("/")[0], "plan", "ada")
    await s.decide(approval.id)
    row = await s.ended(turn)
    assert s.effects() == [], "what was approved before is judged again, and what follows too"
    assert "'plan' of the run mode layer" in row.text
    (told,) = [event for event in await s.events(turn) if event.type == "run_mode.changed"]
    assert told.data == {"from": "build", "to": "plan", "actor": "ada"}


@requirement("P-02")
async def test_an_unknown_mode_is_logged_and_left_aside(
    system: OpenSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    s = await system(scenario("go", step(text="done")))
    opened = await s.client.open_session("assistant", s.workdir, run_mode="dream")
    assert opened.run_mode == "build"
    assert "run_mode.unknown" in "".join(capsys.readouterr())


@requirement("X-12")
async def test_a_session_works_only_under_the_work_roots(system: OpenSystem, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "in").mkdir(parents=True)
    (allowed / "out").symlink_to(tmp_path)
    s = await system(scenario("go", step(text="done")), work_roots=[str(allowed)])
    for place in (s.workdir, allowed / "out", allowed / ".."):
        with pytest.raises(UsageError, match="outside of the work roots"):
            await s.client.open_session("assistant", place)
    inside = await s.client.open_session("assistant", allowed / "in")
    # A client with other settings cannot lead the worker elsewhere either.
    outside = await s.client.store.sessions.open("assistant", str(s.workdir))
    own = await s.client.open_session("assistant", None)
    await s.start_worker()
    assert (await s.ended(await s.send("go", inside.id))).text == "done"
    assert (await s.ended(await s.send("go", own.id))).text == "done"
    refused = await s.ended(await s.send("go", outside.id))
    assert refused.state == "failed"
    assert "outside of the work roots" in refused.reason


@requirement("X-11", "M-24")
async def test_an_hours_actions_are_debited_once_by_an_approved_call_and_given_back_by_a_refused_one(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a"}), ("note_keyed", {"text": "b"})),
            step(("note_keyed", {"text": "c"}), ("note_pure", {"text": "d"})),
            step(("note_keyed", {"text": "e"})),
            step(text="{{results}}"),
        ),
        policy={"ask": ["note_once"], "allow": ["*"]},
        max_actions_per_hour=2,
    )
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await s.decide(approval.id)
    row = await s.ended(turn)
    done = [line.split()[1] for line in s.effects()]
    assert sorted(done) == ["a", "b", "d"], "two actions, and what reads"
    assert "2 actions an hour (max_actions_per_hour)" in row.text
    assert [attempt.status for attempt in await rows.attempts(s.database, f"{turn}.0.0")] == [
        "suspended",
        "completed",
    ]

    again = await s.send("go")
    (refused,) = await s.pending(again)
    await s.decide(refused.id, "deny")
    await s.ended(again)
    assert [line.split()[1] for line in s.effects()].count("c") == 1, "the place of the refused call is free"
