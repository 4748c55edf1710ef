"""The one matcher: `*` and `?`, anything else stands for itself; for names ASCII case-insensitive (R-13, R-14)."""

import fnmatch
import functools
import re
from collections.abc import Iterable


def first_match(patterns: Iterable[str], name: str) -> str | None:
    """The first glob that matches."""
    return next((pattern for pattern in patterns if compiled(pattern).fullmatch(name)), None)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str, case_matters: bool = False) -> re.Pattern[str]:
    """fnmatch's translation does not backtrack over many stars; of its words, only the bracket is not ours."""
    how = re.ASCII if case_matters else re.ASCII | re.IGNORECASE
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")), how)
