"""A table on a terminal: what names a line and what is decided stay whole, at any width."""

import pytest

from gateway.cli.table import fitted

COLUMNS = ("TOOL", "DECISION", "REACH", "RULE", "WHY")
ROWS = [
    ("read_file", "runs", "read", "default: read-only", "it only reads"),
    ("call_tool_by_name", "asks a person", "write", "default: side-effect", "it changes something, and nobody has waived it"),
]  # fmt: skip


def lines(room: int, *, cut: tuple[str, ...] = (), spare: tuple[str, ...] = ("REACH",)) -> list[str]:
    return [line.plain for line in fitted(COLUMNS, ROWS, room, cut, spare)]


def test_a_wide_terminal_shows_all() -> None:
    header, first, second = lines(200)
    assert header.split() == list(COLUMNS)
    assert first == "read_file          runs           read   default: read-only    it only reads"
    assert second.endswith("  it changes something, and nobody has waived it")


@pytest.mark.parametrize("room", [76, 80, 82])
def test_the_last_column_is_cut_and_what_is_spare_goes_before_it_is_short(room: int) -> None:
    header, first, second = lines(room)
    assert header.split() == ["TOOL", "DECISION", "RULE", "WHY"]
    assert first == "read_file          runs           default: read-only    it only reads"
    assert second.startswith("call_tool_by_name  asks a person  default: side-effect  it changes")
    assert second.endswith("…")
    assert len(second) == room


@pytest.mark.parametrize("room", [1, 20, 40])
def test_where_there_is_no_room_at_all_only_what_may_shrink_is_cut(room: int) -> None:
    _, first, second = lines(room)
    assert first == "read_file          runs           default: read-only    it only…"
    assert second == "call_tool_by_name  asks a person  default: side-effect  it chan…"


def test_what_may_shrink_does_so_in_the_order_given() -> None:
    second = lines(60, cut=("WHY", "RULE"))[2]
    assert second == "call_tool_by_name  asks a person  default: side-e…  it chan…"
    assert len(second) == 60


def test_wide_characters_count_as_two() -> None:
    header, line = fitted(("NAME", "WHY"), [("名前名前", "x" * 30)], 20)
    assert line.plain == "名前名前  xxxxxxxxx…"
    assert line.cell_len == 20
    assert header.plain == "NAME      WHY"
