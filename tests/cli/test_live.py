"""The live view: what it says of a tree of agents, in how much room, and that drawing it again leaves nothing behind."""

from collections.abc import Sequence

import pytest
from rich.text import Text

from gateway.cli.live import picture
from gateway.cli.region import Region
from tests.cli.grid import Grid
from tests.cli.made_up import LOGS, PARENT, Story, asking, at, grown, incident
from tests.requirements import requirement


def drawn(story: Story, seconds: float, columns: int = 79, rows: int = 22) -> list[str]:
    def command(line: str) -> str:
        return f"roundturn {line}"

    lines = picture(grown(story), at(seconds), columns, rows, "*", command)
    return [line.plain.rstrip() for line in lines]


def words(lines: Sequence[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


@requirement("A-38")
def test_each_agent_has_a_line_with_what_it_does_now_and_what_it_has_used() -> None:
    assert words(drawn(incident(), 6)) == [
        "orchestrator * waiting for 2 subagents 4 s 2 steps 2.2k tok 6.0 s",
        "├─ log_analyst * read_file logs/checkout… 2 s 1 step 1.1k tok 4.7 s",
        "└─ config_reviewer ✓ completed 1 step 1.1k tok 1.7 s",
    ]


def test_what_waits_for_a_person_stands_below_with_the_command_that_answers() -> None:
    lines = words(drawn(asking(), 21))
    assert lines[0].startswith("orchestrator ▲ waiting for a person 12 s")
    assert lines[-2:] == [
        "▲ ap_7kq2mz9d orchestrator: write_file config/checkout.toml",
        "roundturn approvals approve ap_7kq2mz9d",
    ]


def test_a_subagent_that_waits_for_a_person_is_shown_like_its_parent() -> None:
    story = incident()
    story.tell(
        LOGS, 5, "approval.requested", approval_id="ap_childxxxx", call=f"{LOGS}.0.0", tool="bash",
        rule="always-ask", reason="", expires_at=at(60).isoformat(),
    )  # fmt: skip
    assert words(drawn(story, 6))[-1] == "roundturn approvals approve ap_childxxx"


@pytest.mark.parametrize("columns", [20, 40, 63, 79, 120, 200])
def test_no_line_is_longer_than_the_room(columns: int) -> None:
    assert max(map(len, drawn(incident(), 6, columns))) <= columns


def test_many_agents_fit_the_height_and_those_that_have_ended_give_way() -> None:
    story = Story()
    story.begin(PARENT, 0)
    for number in range(30):
        run = f"s_{number}/1"
        story.spawn(1, "0.0", "worker", run)
        story.begin(run, 1)
        if number % 2:
            story.end(run, 2)
    lines = words(drawn(story, 6, rows=20))
    assert len(lines) <= 20
    assert not any("completed" in line for line in lines)
    assert lines[-1] == "… 15 more agents, 15 of them have ended"
    assert len(drawn(story, 6, rows=8)) <= 8


def test_control_sequences_of_an_agent_do_not_reach_the_terminal() -> None:
    story = Story()
    story.begin(PARENT, 0)
    story.reply(PARENT, 1, ("bash", "once", "echo \x1b[2J\u202e"))
    assert "\x1b" not in "".join(drawn(story, 2))
    assert r"\u202e" in "".join(drawn(story, 2))


class Drawing:
    def __init__(self, columns: int = 40) -> None:
        self.grid = Grid(columns)
        self.writes = 0
        self.region = Region(self._write, lambda: self.grid.columns, lambda text: text.plain)

    def _write(self, text: str) -> None:
        self.writes += 1
        self.grid.feed(text)

    def draw(self, *lines: str) -> None:
        self.region.draw([Text(line) for line in lines])


def test_lines_are_drawn_again_in_their_place_in_one_write() -> None:
    d = Drawing()
    d.draw("one", "two", "three")
    d.draw("eins", "zwei")
    assert d.grid.lines == ["eins", "zwei"]
    d.draw("a", "b", "c", "d")
    assert d.grid.lines == ["a", "b", "c", "d"]
    assert d.writes == 3


def test_text_scrolls_above_and_nothing_is_left_when_it_is_cleared() -> None:
    d = Drawing()
    d.region.above("before\n")
    d.draw("one", "two")
    d.region.above("a row\nand another\n")
    d.draw("one", "two, again")
    assert d.grid.lines == ["before", "a row", "and another", "one", "two, again"]
    d.region.clear()
    d.region.above("after\n")
    assert d.grid.lines == ["before", "a row", "and another", "after"]


def test_a_long_row_above_wraps_and_a_long_line_in_it_is_cut() -> None:
    d = Drawing(10)
    d.draw("x" * 30)
    assert d.grid.lines == ["x" * 8 + "…"]
    d.region.above("y" * 25 + "\n")
    assert d.grid.lines == ["y" * 10, "y" * 10, "y" * 5, "x" * 8 + "…"]


def test_a_terminal_that_was_made_narrower_keeps_no_copy() -> None:
    d = Drawing(40)
    d.region.above("history\n")
    d.draw("a" * 30, "b" * 35)
    d.grid.narrow(20)
    d.draw("a" * 30, "b" * 35)
    assert d.grid.lines == ["history", "a" * 18 + "…", "b" * 18 + "…"]


def test_wide_characters_are_counted_as_they_are_shown() -> None:
    d = Drawing(10)
    d.draw("世界世界世界世界")
    assert d.grid.lines == ["世界世界…"]


def test_a_write_on_the_other_stream_comes_above() -> None:
    d = Drawing()
    d.draw("one", "two")
    with d.region.aside():
        d.grid.feed("data\r\n")
    assert d.grid.lines == ["data", "one", "two"]
