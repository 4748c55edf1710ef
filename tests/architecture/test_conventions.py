"""What style says of every module: a reason to exist, a noun for a name, no silent failure, nothing left for later."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import PACKAGES, ROOT, Module, called, product, tracked
from tests.requirements import requirement

VAGUE = {"utils", "util", "helpers", "helper", "manager", "shared", "common", "base", "misc", "core"}
# Who may print or block, and why.
PRINTS = {
    "worker/health.py": "says to whoever asked why it is not well",
    "worker/__main__.py": "says on standard error why it cannot start",
    "gateway/dev/serve.py": "the one `ready` line that scripts wait for",
}
SLEEPS = {
    "roundturn/tools/supervised.py": "in its own small process, between the end of a command and its children's"
}


def test_every_module_says_in_a_sentence_why_it_is_there() -> None:
    told = [m for m in product() if m.text.strip() and m.path != "roundturn/__init__.py"]
    assert [m.path for m in told if not _is_sentence(ast.get_docstring(m.tree) or "")] == []


def _is_sentence(docstring: str) -> bool:
    return len(docstring.split()) >= 3 and docstring.split("\n\n", maxsplit=1)[0].rstrip()[-1] in ".;:?"


def test_the_package_roundturn_holds_its_version_and_nothing_else() -> None:
    assert re.fullmatch(
        r'__version__ = "\d+\.\d+\.\d+[a-z0-9.]*"\n', (ROOT / "roundturn" / "__init__.py").read_text()
    )


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [path for path in tracked() if path.suffix == ".py" and VAGUE & {path.stem, path.parent.name}]
    assert vague == []


def test_nothing_prints_or_blocks_but_where_it_must() -> None:
    printing = {m.path for m in product() for c in m.calls() if ast.unparse(c.func) == "print"}
    sleeping = {m.path for m in product() for c in m.calls() if ast.unparse(c.func) == "time.sleep"}
    assert printing == set(PRINTS)
    assert sleeping == set(SLEEPS)


def test_no_failure_is_swallowed() -> None:
    assert [place for m in product() for place in _swallowed(m)] == []


def _swallowed(module: Module) -> Iterator[str]:
    broad = {"Exception", "BaseException"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            wide = node.type is None or ast.unparse(node.type) in broad
            if wide and all(isinstance(s, ast.Pass | ast.Continue) for s in node.body):
                yield module.at(node)
        if (
            isinstance(node, ast.Call)
            and called(node) == "suppress"
            and broad & {ast.unparse(a) for a in node.args}
        ):
            yield module.at(node)


@requirement("P97")
def test_every_setting_is_read_by_somebody() -> None:
    from roundturn.settings import Settings

    readers = {
        node.attr
        for m in product()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Attribute)
        and ("settings" in ast.unparse(node.value) or m.path == "roundturn/settings.py")
    }
    assert set(Settings.model_fields) - readers == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_and_says_what_belongs_in_it(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    guide = (ROOT / package / "AGENTS.md").read_text()
    assert 1 <= len(re.findall(r"^- ", guide, re.MULTILINE)) <= 8
