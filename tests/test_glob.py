"""The one matcher: two wildcards, ASCII case, and an answer at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.glob import compiled, first_match
from roundturn.glob import matches as any_matches
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
@given(st.lists(st.text("aB*?|", max_size=4), max_size=3).map(tuple), st.text("abAB|\n", max_size=6))
def test_of_several_globs_one_matches_when_one_of_them_does_by_itself(
    patterns: tuple[str, ...], name: str
) -> None:
    assert any_matches(patterns, name) == any(matches(pattern, name) for pattern in patterns)


def test_globs_that_differ_in_case_only_are_told_apart_where_case_matters() -> None:
    """Whatever was asked before: what is kept of a pattern is kept for its spelling and for how it was asked."""
    assert any_matches(("git*",), "GIT") is True
    assert any_matches(("GIT*",), "git") is True
    for pattern in ("git*", "GIT*"):
        exact = compiled((pattern,), case_matters=True)
        assert [name for name in ("git", "GIT") if exact.fullmatch(name)] == [pattern[:-1]]


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
    assert not any_matches(("*a" * 30 + "*b", "*?" * 30 + "*b"), "a" * 64)


def test_the_first_pattern_that_matches_is_named() -> None:
    assert first_match(["x", "b*", "*"], "bash") == "b*"
