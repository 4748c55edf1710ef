"""The tree of agents and the rows about it, from journals that are made up."""

from dataclasses import replace

from gateway.cli.rows import Row, Rows
from gateway.cli.tree import Tree
from tests.cli.made_up import LOGS, PARENT, SETTINGS, Story, asking, grown, incident
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
