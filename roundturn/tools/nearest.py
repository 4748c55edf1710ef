"""Where a text that is not in a file nearly is: what a model needs to quote it right the next time."""

import difflib
import time
from itertools import zip_longest

from roundturn.jsontext import clean_text, whole_words

LINE_CHARS = 200
MIN_LIKENESS = 0.6
LIMIT_S = 0.3  # a long file is looked through as far as this goes


def nearest(wanted: str, content: bytes) -> str:
    """A sentence with the line that comes nearest to the first one of `wanted` with anything in it."""
    lines = content.decode(errors="replace").split("\n")
    asked = wanted.split("\n")
    first = next((n for n, line in enumerate(asked) if line.strip()), None)
    if first is None:
        return "It is white space only; give a line of text with it"
    begins = [n for n, line in enumerate(lines) if line == asked[first]]
    if begins and len(asked) > first + 1:
        return _first_difference(asked[first:], lines, begins)
    stripped = asked[first].strip()
    same = next((n for n, line in enumerate(lines) if line.strip() == stripped), None)
    if same is not None:
        return f"Line {same + 1} differs in white space at its ends only: {_quoted(lines[same])}"
    like = _most_like(stripped, lines)
    return "No line is like it" if like is None else f"The nearest is line {like + 1}: {_quoted(lines[like])}"


def _first_difference(asked: list[str], lines: list[str], begins: list[int]) -> str:
    def equal(begin: int) -> int:
        pairs = zip_longest(asked, lines[begin : begin + len(asked)])
        return next((n for n, (wanted, line) in enumerate(pairs) if wanted != line), len(asked))

    begin = max(begins[:LINE_CHARS], key=equal)
    at = begin + equal(begin)
    if at >= len(lines):
        return f"Its beginning is at line {begin + 1}, but the file ends before it does"
    return (
        f"Its beginning is at line {begin + 1}; the first difference is line {at + 1}: {_quoted(lines[at])}"
    )


def _most_like(wanted: str, lines: list[str]) -> int | None:
    deadline = time.monotonic() + LIMIT_S
    compared = difflib.SequenceMatcher(None, b=wanted[:LINE_CHARS], autojunk=False)
    best, found = MIN_LIKENESS, None
    for n, line in enumerate(lines):
        if time.monotonic() > deadline:
            break
        compared.set_seq1(line.strip()[:LINE_CHARS])
        if compared.real_quick_ratio() > best and compared.quick_ratio() > best and compared.ratio() > best:
            best, found = compared.ratio(), n
    return found


def _quoted(line: str) -> str:
    """White space and what cannot be seen in a form that can."""
    if len(line) <= LINE_CHARS:
        return repr(clean_text(line))
    return repr(clean_text(whole_words(line[:LINE_CHARS]))) + " (cut)"
