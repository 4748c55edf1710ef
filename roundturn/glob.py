"""The one matcher: `*` and `?`, anything else stands for itself; for names ASCII case-insensitive (R-13, R-14)."""

import functools
import re
from collections.abc import Iterable

NOTHING = "(?!)"


def first_match(patterns: Iterable[str], name: str) -> str | None:
    """The first glob that matches."""
    return next((pattern for pattern in patterns if matches((pattern,), name)), None)


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether one of the globs does."""
    return compiled(patterns).fullmatch(name) is not None


@functools.lru_cache(maxsize=1024)
def compiled(patterns: tuple[str, ...], case_matters: bool = False) -> re.Pattern[str]:
    """All of them in one, for `fullmatch`."""
    case = re.ASCII if case_matters else re.ASCII | re.IGNORECASE
    return re.compile("|".join(map(_translated, patterns)) if patterns else NOTHING, case | re.DOTALL)


def _translated(pattern: str) -> str:
    """A star but the last takes as little as it can and never gives back, so that many of them answer at once."""
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not rest:
        return first
    return first + "".join(f"(?>.*?{part})" for part in rest[:-1]) + ".*" + rest[-1]
