"""A file fits in the head, a function on the screen."""

import pytest

from tests.architecture.source import Module, product

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
LONG_FUNCTIONS = {
    "roundturn/stores/migrations/versions/0001_first_tables.py": "a migration lists the tables as they were on its day"
}


@pytest.mark.parametrize("module", product(), ids=lambda m: m.path)
def test_a_module_has_at_most_400_lines_and_its_functions_60(module: Module) -> None:
    assert module.lines() <= MOST_LINES
    long = [
        f"{module.at(f)} {f.name} has {f.end_lineno - f.lineno + 1} lines"
        for f in module.functions()
        if f.end_lineno and f.end_lineno - f.lineno >= MOST_FUNCTION_LINES
    ]
    assert long == [] or module.path in LONG_FUNCTIONS


def test_the_median_module_has_about_a_hundred_lines() -> None:
    sizes = sorted(m.lines() for m in product() if m.lines() > 1)
    assert sizes[len(sizes) // 2] <= 130
