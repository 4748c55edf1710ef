"""A file fits in the head, a function on the screen."""

import ast

from tests.architecture.source import product

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
LONG_FUNCTIONS = {
    "roundturn/stores/migrations/versions/0001_first_tables.py": "a migration lists the tables as they were on its day"
}


def test_a_module_has_at_most_400_lines_and_a_function_60() -> None:
    assert [f"{m.path} has {m.lines()} lines" for m in product() if m.lines() > MOST_LINES] == []
    long = {
        m.path: f"{m.at(f)} {f.name} has {own_lines(f)} lines"
        for m in product()
        for f in m.functions()
        if own_lines(f) > MOST_FUNCTION_LINES
    }
    assert {path: told for path, told in long.items() if path not in LONG_FUNCTIONS} == {}


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the functions that are defined in it: a command line's registration is a list of them."""
    inner = [node for node in function.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return _span(function) - sum(_span(node) for node in inner)


def _span(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_the_median_module_has_about_a_hundred_lines() -> None:
    sizes = sorted(m.lines() for m in product() if m.lines() > 1)
    assert sizes[len(sizes) // 2] <= 130
