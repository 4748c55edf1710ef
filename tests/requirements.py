"""`@requirement("M-09")` binds a test to items of the catalogue; `make requirements` reads the marks."""

from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def requirement(*ids: str) -> Callable[[T], T]:
    return pytest.mark.requirement(*ids)  # type: ignore[return-value]
