"""Ids have one form, come from position or 128 random bits, and a foreign one is never taken for ours."""

import re

import pytest

from roundturn import ids
from tests.requirements import requirement

ODD = ["", "../../x", "a/b", "..%2f", "C:\\x", "ü", "a\x00b", "a b", "a\n", "\n", "x" * 201]


def test_a_session_id_is_128_bits_in_lower_case() -> None:
    made = ids.session_id(bytes(range(16)))
    assert re.fullmatch(r"s_[a-z2-7]{26}", made)
    assert ids.is_session_id(made)
    assert ids.session_id(b"\x00" * 16) != ids.session_id(b"\x00" * 15 + b"\x01")


@requirement("P126")
def test_an_approval_id_holds_all_128_bits_and_refuses_fewer() -> None:
    assert len({ids.approval_id(bytes([0] * 15 + [n])) for n in range(256)}) == 256
    for size in (0, 8, 15, 17):
        with pytest.raises(ValueError, match="16 random bytes"):
            ids.approval_id(b"x" * size)


@requirement("P134")
@pytest.mark.parametrize(
    "text", [*ODD, "s_" + "A" * 26, "s_" + "a" * 25, "s_" + "a" * 27, "s_" + "a" * 26 + "\n"]
)
def test_what_is_no_session_id_is_told_apart(text: str) -> None:
    assert not ids.is_session_id(text)


@requirement("P134")
@pytest.mark.parametrize("text", ODD)
def test_a_foreign_key_with_odd_characters_or_length_is_refused(text: str) -> None:
    assert not ids.is_foreign_key(text)


@pytest.mark.parametrize("text", ["a", "A-b_c.d:9", "x" * 200])
def test_a_plain_foreign_key_is_accepted(text: str) -> None:
    assert ids.is_foreign_key(text)


@requirement("P03")
def test_a_call_id_comes_from_position_and_can_be_read_back() -> None:
    turn = ids.turn_id("s_abc", 12)
    call = ids.call_id(turn, 3, 45)
    assert call == "s_abc/12.3.45"
    assert ids.CallPosition.parse(call) == ids.CallPosition(turn, 3, 45)
    assert ids.session_of(turn) == "s_abc"


def test_workflow_ids_are_made_of_ours() -> None:
    assert ids.session_workflow("s_a") == "session/s_a"
    assert ids.turn_workflow("s_a/1") == "turn/s_a/1"


@requirement("P12")
def test_a_name_from_elsewhere_is_made_printable_and_short() -> None:
    assert ids.printable("a\n\x1b[31m\u202eb") == "a??[31m?b"
    assert ids.printable("n" * 10_000) == "n" * 64
