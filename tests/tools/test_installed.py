"""Tools of other packages: found by their entry points, and whatever is wrong with one is told with its place."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from roundturn.errors import AuthorError
from roundturn.registry import ToolRegistry
from roundturn.sandboxes.none import Unconfined
from roundturn.tool import BaseTool
from roundturn.tools import BUILTIN, CONFINED, DELEGATION, every_tool
from tests.requirements import requirement

HEAD = """
from typing import Any
from pydantic import BaseModel
from roundturn.tool import BaseTool, ToolContext, tool


class Input(BaseModel, extra="forbid"):
    text: str


class Echo(BaseTool):
    name, description, category, input_model = "echo_it", "Says it again.", "tests", Input

    async def execute(self, arguments: Input, context: ToolContext) -> str:
        return arguments.text


@tool(category="tests")
async def say_it(text: str) -> str:
    \"\"\"Says it.\"\"\"
    return text


echo = Echo()
"""


class Site:
    """A folder of packages, each module of its own name: a module that was imported once is not imported again."""

    made = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, package: str, source: str, **points: str) -> str:
        """`points`: entry points of the group, as names in the module. Returns the module's name."""
        Site.made += 1
        module = f"installed_{Site.made}"
        info = self.folder / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = "".join(f"{name} = {module}:{value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[roundturn.tools]\n{lines}")
        (self.folder / f"{module}.py").write_text(HEAD + source)
        return module


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(tmp_path)
    return Site(tmp_path)


def found(*embedded: BaseTool) -> Iterator[tuple[BaseTool, str]]:
    return every_tool(cast(Any, None), {}, Unconfined(), embedded)


@requirement("T-16", "T-09")
def test_installed_tools_come_after_ours_and_before_the_embedders(site: Site) -> None:
    site.add("mytools", "", say_it="say_it", echo_it="Echo")
    names = [(tool.spec().name, origin) for tool, origin in found(BUILTIN["grep"]())]
    ours = [*CONFINED, *BUILTIN, *DELEGATION]
    assert names == [
        *((name, "builtin") for name in ours),
        ("echo_it", "installed"),
        ("say_it", "installed"),
        ("grep", "embedder"),
    ]


@requirement("T-16")
def test_a_tool_that_was_made_already_may_be_named(site: Site) -> None:
    site.add("mytools", "", it="echo")
    assert "echo_it" in [tool.spec().name for tool, _ in found()]


@requirement("T-16", "T-17", "P28")
@pytest.mark.parametrize(
    ("source", "value", "said", "hint"),
    [
        ("", "missing", "AttributeError", ""),
        ("1 / 0", "Echo", "ZeroDivisionError: division by zero", ""),
        ("import no_such_module", "Echo", "ModuleNotFoundError", ""),
        ("async def f(text: str) -> str: return text", "f", "it is a function and no tool", "@tool"),
        ("f = 3", "f", "it is no tool", "subclass of BaseTool"),
        ("f = dict", "f", "it is no tool", "subclass of BaseTool"),
        ("class T(BaseTool): name = 'x'", "T", "TypeError: .*execute", ""),
        ("class T(Echo):\n    def __init__(self, x: int) -> None: ...", "T", "TypeError", ""),
        ("class T(Echo): tags = 'one'", "T", "tags of T are 'one'", "tuple"),
        ("class T(Echo): efect = 1", "T", "T declares efect", "write effect"),
        ("class T(Echo): category = ''", "T", "tool T has no category", "set `category`"),
        ("class T(Echo): name = 'a b'", "T", "not accepted by model APIs", "letters"),
        ("class T(Echo): name = 'grep'", "T", "tool name grep is taken by Grep", "rename T"),
        ("f = tool(category='tests', limits=3)(say_it)", "f", "nothing is declared as limits", "limit_s"),
        ("class T(Echo): description = property(lambda self: 1 / 0)", "T", "ZeroDivisionError", ""),
    ],
)  # fmt: skip
def test_whatever_is_wrong_names_the_entry_point_and_its_package(
    site: Site, source: str, value: str, said: str, hint: str
) -> None:
    if value == "f" and "limits" in source:
        source = f"async def plain(text: str) -> str: return text\n{source.replace('(say_it)', '(plain)')}"
    module = site.add("mytools", source, wrong=value)
    place = f'entry point wrong = "{module}:{value}" of package mytools 1.2: '
    with pytest.raises(AuthorError, match=f"^{re.escape(place)}.*{said}") as refused:
        list(found())
    assert hint in refused.value.hint


@requirement("T-16", "P28")
def test_of_two_packages_with_the_same_name_for_a_tool_the_second_is_named(site: Site) -> None:
    site.add("one", "", a="Echo")
    site.add("two", "", b="Echo")
    with pytest.raises(
        AuthorError, match='^entry point b = ".*" of package two 1.2: tool name echo_it is taken'
    ):
        list(found())


@requirement("T-16", "T-06")
@pytest.mark.parametrize("name", [*BUILTIN, *CONFINED, *DELEGATION])
def test_an_argument_that_a_tool_of_ours_does_not_know_is_refused(name: str) -> None:
    made = ToolRegistry()
    for tool, origin in found():
        made.register(tool, origin)
    tool_of_ours, spec = made.get(name), made.spec(name)
    assert tool_of_ours is not None
    assert spec is not None
    assert spec.input_schema["additionalProperties"] is False
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        tool_of_ours.input_model.model_validate({"invented": 1})
