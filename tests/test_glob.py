"""The one matcher: two wildcards, ASCII case, and an answer at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.glob import first_match
from tests.requirements import requirement


def matches(pattern: str, name: str) -> bool:
    """Globs by recursion on the first character: an oracle that shares nothing with the matcher."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return matches(pattern[1:], name) or (bool(name) and matches(pattern, name[1:]))
    return bool(name) and pattern[0].lower() in ("?", name[0].lower()) and matches(pattern[1:], name[1:])


@requirement("R-13")
@given(st.text("aA*?[]!.^$\\+(){}-", max_size=8), st.text("aA*?[]!.^$\\+(){}-\n", max_size=8))
def test_a_glob_matches_as_an_independent_matcher_says(pattern: str, name: str) -> None:
    assert (first_match([pattern], name) is not None) == matches(pattern, name)


@requirement("R-13")
@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("*", "bash", True), ("BASH", "bash", True), ("ba", "bash", False), ("b?sh", "bash", True), ("*_file", "read_file", True),
        ("[rw]*", "read", False), ("a.b", "axb", False), ("K", "\u212a", False), ("s", "\u017f", False), ("", "bash", False),
        ("gmail_*", "GMAIL_SEND_EMAIL", True), ("ä", "Ä", False),
    ],
)  # fmt: skip
def test_globs_know_star_and_question_mark_only_and_ascii_case(
    pattern: str, name: str, matched: bool
) -> None:
    assert (first_match([pattern], name) is not None) == matched


def test_a_glob_with_many_stars_answers_at_once() -> None:
    assert first_match(["*a" * 30 + "*b"], "a" * 64) is None


def test_the_first_pattern_that_matches_is_named() -> None:
    assert first_match(["x", "b*", "*"], "bash") == "b*"
