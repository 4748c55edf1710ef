"""Names from elsewhere: one on the wire for each, whatever they are, and never one of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.names import WIRE_PATTERN, is_plain, wire_name
from roundturn.tools import BUILTIN, DELEGATION
from tests.requirements import requirement

near = st.text("ab_-/.\u00fc", max_size=6)
anything = near | st.text(max_size=300)


@requirement("P30")
@given(anything, anything)
def test_every_name_from_elsewhere_has_a_form_that_model_apis_accept(server: str, tool: str) -> None:
    assert WIRE_PATTERN.fullmatch(wire_name(server, tool))
    assert not is_plain(wire_name(server, tool)), "none of ours can have it"


@requirement("P28", "P30")
@given(st.lists(st.tuples(anything, anything), min_size=2, max_size=20, unique=True))
def test_two_tools_never_share_a_name(tools: list[tuple[str, str]]) -> None:
    assert len({wire_name(*tool) for tool in tools}) == len(tools)


@requirement("P30")
@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("mail", "send", "mail__send"),
        ("mail", "send_now", "mail__send_now"),
        ("mail", "calendar.list", "mail__calendar_list__"),
        ("mail", "a/b", "mail__a_b__"),
        ("mail", "\u00fcn\u00efcode", "mail__n_code__"),
        ("mail", "\u65e5\u672c", "mail__x__"),
        ("a", "b__c", "a__b_c__"),
        ("a__b", "c", "a_b__c__"),
    ],
)
def test_as_much_of_a_name_as_can_be_is_kept(server: str, tool: str, name: str) -> None:
    assert wire_name(server, tool).startswith(name)


def test_a_long_name_is_cut_and_two_that_begin_alike_stay_apart() -> None:
    one, two = (wire_name("mail", "x" * 200 + end) for end in "ab")
    assert one != two
    assert len(one) <= 64


@requirement("P28")
def test_the_built_in_names_are_plain() -> None:
    assert all(is_plain(name) for name in (*BUILTIN, *DELEGATION))
