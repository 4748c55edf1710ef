"""The tree of agents and the rows about it, from journals that are made up."""

from dataclasses import replace
from typing import get_args

from gateway.cli.events import SAYINGS
from gateway.cli.rows import Row, Rows
from gateway.cli.tree import Tree
from roundturn import event as events
from tests.cli.made_up import LOGS, PARENT, SETTINGS, Story, asking, at, grown, incident
from tests.requirements import requirement


def rows(story: Story) -> list[str]:
    tree = Tree(PARENT, "orchestrator")
    found = Rows(tree, lambda line: f"roundturn {line}")
    said = []
    for event in story.events:
        branch = tree.add(event)
        assert branch is not None
        said += [row.fitted(None) for row in found.of(event, branch)]
    return said


@requirement("A-38")
def test_a_subagent_is_in_the_tree_from_its_spawn_on() -> None:
    tree = grown(asking())
    assert [branch.name for branch in tree] == ["orchestrator", "log_analyst", "config_reviewer"]
    assert [branch.run for branch in tree.root.children] == [LOGS, SETTINGS]
    assert (tree.used.input_tokens, tree.used.output_tokens, tree.model_calls) == (6000, 600, 6)
    assert [(branch.name, approval) for branch, approval, _ in tree.waiting] == [
        ("orchestrator", "ap_7kq2mz9dxxxxxxxx")
    ]


def test_two_of_the_same_agent_have_names_of_their_own_and_a_repeated_event_makes_no_third() -> None:
    story = incident()
    story.spawn(6, "2.0", "log_analyst", "s_more/1")
    story.spawn(6, "2.0", "log_analyst", "s_more/1")
    assert [branch.name for branch in grown(story)] == [
        "orchestrator", "log_analyst", "config_reviewer", "log_analyst 2",
    ]  # fmt: skip


def test_events_of_a_run_that_nobody_in_the_tree_has_spawned_are_not_in_it() -> None:
    story = incident()
    stray = story.tell("s_stranger/1", 5, "turn.started", turn="s_stranger/1", delivers=[])
    assert grown(incident()).add(stray) is None


def test_a_run_waits_for_its_subagents_between_two_turns_and_ends_once_it_is_said() -> None:
    story = incident()
    root = grown(story).root.tally
    assert (root.state, root.doing(), root.ended) == ("running", "waiting for 2 subagents", None)
    story.end(PARENT, 9, "incomplete", "max_steps")
    root = grown(story).root.tally
    assert (root.state, root.reason) == ("incomplete", "max_steps")


@requirement("A-38")
def test_with_a_subagent_each_row_names_its_agent() -> None:
    assert rows(asking())[:6] == [
        "orchestrator  + log_analyst  what the logs say",
        "orchestrator     + config_reviewer  what the settings say",
        "config_reviewer  ✓ completed · 1 step · 1.1k tokens · 1.7 s",
        "log_analyst      ✓ read_file  logs/checkout.log                    41 ms",
        "log_analyst      ✓ completed · 2 steps · 2.2k tokens · 3.7 s",
        "orchestrator     ↓ 2 results in one delivery: log_analyst, config_reviewer",
    ]
    assert rows(asking())[6].startswith(
        "orchestrator     ▲ write_file  config/checkout.toml   waits for a person"
    )
    assert rows(asking())[7].endswith("in another terminal: roundturn approvals approve ap_7kq2mz9d")


def test_an_agent_alone_is_not_named() -> None:
    story = Story()
    story.begin(PARENT, 0)
    story.reply(PARENT, 1, ("note", "once", "a"))
    story.settle(PARENT, 1, "0.0", "note", is_error=True, error_type="outcome_unknown")
    story.end(PARENT, 2)
    assert [" ".join(row.split()) for row in rows(story)] == ["✗ note a 41 ms outcome_unknown once"]
    assert grown(story).unknown[0][1] == f"{PARENT}.0.0"


def test_a_row_that_is_too_long_keeps_its_end_and_what_is_to_be_copied_is_never_cut() -> None:
    row = Row("✓ bash  " + "x" * 100, whole=False, tail="41 ms   once")
    assert row.fitted(40) == "✓ bash  " + "x" * 18 + "… 41 ms   once"
    assert row.fitted(None).endswith("x 41 ms   once")
    assert replace(row, text="✓ bash  x" + " " * 40).fitted(40) == "✓ bash  x" + " " * 18 + " 41 ms   once"
    assert Row("y" * 100).fitted(40) == "y" * 100


def test_a_run_whose_call_waits_for_a_subagent_is_not_at_work_itself() -> None:
    story = incident()
    story.tell(PARENT, 7, "turn.started", turn="s_parent/2", delivers=[])
    story.reply(PARENT, 7, ("wait_subagent", "pure", "s_logs"))
    (call,) = list(grown(story).root.tally.open_calls)[-1:]
    assert grown(story).root.tally.doing() == "wait_subagent s_logs"
    story.tell(PARENT, 8, "subagent.awaited", call=call, run="s_logs/1")
    assert grown(story).root.tally.doing() == "waiting for 2 subagents"
    story.tell(PARENT, 9, "tool.settled", call=call, tool="wait_subagent", status="completed", is_error=False)
    assert grown(story).root.tally.doing() == "the model is thinking"


@requirement("P13")
def test_a_long_wait_for_the_endpoint_is_said_and_not_taken_for_thinking() -> None:
    story = incident()
    story.tell(PARENT, 7, "turn.started", turn="s_parent/2", delivers=[])
    story.tell(PARENT, 8, "model.limited", turn="s_parent/2", until=at(3600).isoformat())
    assert grown(story).root.tally.doing().startswith("the endpoint wants a rest until ")
    assert "asked to wait until" in rows(story)[-1]
    story.reply(PARENT, 3601)
    assert grown(story).root.tally.limited_until is None


def test_every_event_that_can_be_written_has_its_line() -> None:
    assert set(SAYINGS) == set(get_args(events.Type))
