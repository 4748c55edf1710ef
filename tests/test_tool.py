"""The contract of a tool: checked when it is registered, its schema generated, its effect cautious."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from roundturn.errors import AuthorError, ToolFailed
from roundturn.tool import BaseTool, Effect, Permission, ToolContext, ToolResult, as_result, tool
from tests.requirements import requirement


class Input(BaseModel):
    text: str


class Unreadable:
    """Of no type that JSON has."""


class Unsendable(BaseModel):
    call: Callable[[], None]


class Echo(BaseTool):
    name = "echo"
    category = "tests"
    description = "Says it again."
    input_model = Input

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult(output=arguments.text)


def variant(**attributes: Any) -> BaseTool:
    made: BaseTool = type("Variant", (Echo,), attributes)()
    return made


@requirement("T-02")
def test_a_tool_without_execute_cannot_be_made() -> None:
    class Lazy(BaseTool):
        name = "lazy"

    with pytest.raises(TypeError, match="execute"):
        Lazy()  # type: ignore[abstract]


@requirement("T-03")
def test_a_field_added_to_the_input_model_is_in_the_schema() -> None:
    class More(Input):
        count: int = Field(3, description="how often")

    before, after = Echo().spec().input_schema, variant(input_model=More).spec().input_schema
    assert "count" not in before["properties"]
    assert after == More.model_json_schema()
    assert after["properties"]["count"]["description"] == "how often"


@requirement("T-04", "T-05")
def test_an_undeclared_effect_is_the_cautious_one() -> None:
    spec = Echo().spec()
    assert (spec.effect, spec.brief, spec.approval, spec.permission) == (
        Effect.ONCE,
        False,
        "by_effect",
        "execute",
    )
    assert not Echo().is_read_only(Input(text="x"))
    assert variant(effect=Effect.PURE).is_read_only(Input(text="x"))
    assert not variant(effect=Effect.KEYED).is_read_only(Input(text="x"))


@requirement("T-06")
def test_a_result_is_text_and_whether_it_is_an_error() -> None:
    assert ToolResult(output="x").model_dump(exclude_none=True) == {"output": "x", "is_error": False}
    with pytest.raises(ValueError, match="valid string"):
        ToolResult(output={"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"name": ""}, "has no name"),
        ({"description": ""}, "has no description"),
        ({"input_model": None}, "has no input_model"),
        ({"input_model": dict}, "not a Pydantic model"),
        ({"input_model": Input(text="x")}, "not a Pydantic model"),
        ({"effect": "pure"}, "'pure'"),
        ({"effect": Effect.KEYED, "brief": True}, "brief but not pure"),
        ({"effect": Effect.ONCE, "brief": True}, "brief but not pure"),
        ({"category": ""}, "has no category"),
        ({"category": "Two Words"}, "category"),
        ({"exposure": "secret"}, "exposure"),
        ({"approval": "maybe"}, "approval"),
        ({"permission": "read"}, "permission"),
        ({"limit_s": 0}, "limit_s"),
        ({"limit_s": -1.0}, "limit_s"),
        ({"limit_s": float("inf")}, "limit_s"),
        ({"limit_s": float("nan")}, "limit_s"),
        ({"limit_s": "60"}, "limit_s of Variant is '60'"),
        ({"limit_s": True}, "limit_s of Variant is True"),
        ({"name": 5}, "name of Variant is 5"),
        ({"description": ["d"]}, "description of Variant"),
        ({"category": 5}, "category of Variant is 5"),
        ({"family": None}, "family of Variant is None"),
        *(({name: "no"}, f"{name} of Variant is 'no'") for name in ("brief", "privileged", "directive")),
        ({"reaches_deferred": 1}, "reaches_deferred of Variant is 1"),
        ({"tags": "one"}, "tags of Variant are 'one'"),
        ({"tags": ("one", 2)}, "tags of Variant"),
        ({"tags": {"one"}}, "tags of Variant"),
        ({"argument_kinds": {"texts": "path"}}, "texts is no argument"),
        ({"argument_kinds": {"text.part": "path"}}, "text.part is no argument"),
        ({"argument_kinds": {"text": "file"}}, "text is 'file'"),
        ({"argument_kinds": ("text", "path")}, "argument_kinds of Variant"),
        ({"argument_kinds": {1: "path"}}, "argument_kinds of Variant"),
        ({"execute": lambda self, arguments, context: "x"}, "execute of Variant is no coroutine function"),
        ({"is_read_only": True}, "is_read_only of Variant is no plain method"),
        ({"input_model": Unsendable}, "no JSON schema"),
    ],
)
def test_a_broken_contract_is_refused_with_what_to_change(attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(AuthorError, match=said) as refused:
        variant(**attributes).spec()
    assert refused.value.hint


@requirement("T-17")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("aproval", "approval"), ("efect", "effect"), ("effcet", "effect"), ("permision", "permission"),
        ("tag", "tags"), ("limits", "limit_s"), ("argument_kind", "argument_kinds"), ("priviledged", "privileged"),
        ("breif", "brief"), ("descripton", "description"),
    ],
)  # fmt: skip
def test_a_misspelt_class_variable_is_refused_with_the_one_that_was_meant(written: str, meant: str) -> None:
    class Set(Echo):
        def __init__(self) -> None:
            setattr(self, written, "x")

    class Computed(Echo):
        pass

    setattr(Computed, written, property(lambda self: "x"))
    inherited = type("Below", (type(variant(**{written: "x"})),), {})()
    for wrong in (variant(**{written: "x"}), inherited, Set(), Computed()):
        with pytest.raises(AuthorError, match=f"declares {written}, which nothing reads") as refused:
            wrong.spec()
        assert refused.value.hint.startswith(f"write {meant};")


@requirement("T-17")
def test_what_is_a_tools_own_may_be_called_anything_else() -> None:
    class Own(Echo):
        MOST = 3
        LIMIT_S = 3
        timeout_s = 3.0
        output = "x"
        _names = ("a",)

        def __init__(self) -> None:
            self.client = None
            self.url = "x"
            self.approval = "always"

        def effects(self) -> None:
            """A method is no declaration."""

        @staticmethod
        def tag() -> None: ...

        @classmethod
        def names(cls) -> None: ...

    assert Own().spec().approval == "always"


@requirement("T-04")
async def test_a_hook_that_would_return_a_coroutine_is_refused() -> None:
    async def maybe(self: BaseTool, arguments: Any) -> bool:
        return False

    for name in ("is_read_only", "shown_to", "stands_for"):
        with pytest.raises(AuthorError, match=f"{name} of Variant is no plain method"):
            variant(**{name: maybe}).spec()


class Part(BaseModel):
    file: str = Field("", alias="at")
    beside: "Part | None" = None


class Nested(BaseModel):
    part: Part
    parts: list[Part]
    either: Part | str | None = None
    pair: tuple[Part, int] | None = None
    named: dict[str, Part] = {}
    free: dict[str, Any] = {}
    anything: Any = None


@requirement("T-17")
@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("part.at", True), ("part.beside.beside.at", True), ("parts.at", True), ("either.at", True),
        ("pair.at", True), ("named.x.at", True), ("free.x", True), ("free.x.y", True), ("anything.x", True),
        ("parts", True), ("part.file", False), ("parts.0.at", False), ("named.x.file", False), ("other", False),
        ("part.at.x", False), ("", False), ("part.", False),
    ],
)  # fmt: skip
def test_a_kind_is_for_an_argument_that_the_schema_has(name: str, is_there: bool) -> None:
    nested = variant(input_model=Nested, argument_kinds={name: "path"})
    if is_there:
        assert nested.spec().argument_kinds == {name: "path"}
    else:
        with pytest.raises(AuthorError, match="is no argument of the input_model"):
            nested.spec()


@requirement("T-17")
def test_a_tool_whose_input_is_one_recursive_model_may_name_its_arguments() -> None:
    assert variant(input_model=Part, argument_kinds={"at": "path", "beside.at": "path"}).spec()


def test_tags_may_be_a_list() -> None:
    assert variant(tags=["a", "b"]).spec().tags == ("a", "b")


def test_a_brief_pure_tool_is_fine() -> None:
    assert variant(effect=Effect.PURE, brief=True).spec().brief


def test_a_missing_attribute_is_named() -> None:
    class Nameless(BaseTool):
        description = "d"
        category = "tests"
        input_model = Input

        async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
            return ToolResult(output="")

    with pytest.raises(AuthorError, match="tool Nameless has no name"):
        Nameless().spec()


@requirement("T-17", "T-05")
def test_what_is_not_declared_is_filled_in_and_nothing_is_left_empty() -> None:
    spec = Echo().spec("installed", "other")
    assert (spec.name, spec.tool, spec.origin) == ("other", "echo", "installed")
    assert (spec.category, spec.family, spec.tags, spec.exposure) == ("tests", "tests", (), "listed")
    assert not spec.privileged
    assert not spec.may_only_read


@requirement("T-04")
def test_a_tool_that_judges_its_arguments_may_only_read_sometimes() -> None:
    judging = variant(is_read_only=lambda self, arguments: arguments.text == "look")
    assert judging.spec().may_only_read
    assert judging.is_read_only(Input(text="look"))
    assert not judging.is_read_only(Input(text="change"))


@requirement("T-16")
async def test_a_typed_function_is_a_tool() -> None:
    @tool(category="tests", effect=Effect.PURE, permission=Permission.READ, tags=("words",))
    async def count_words(
        text: Annotated[str, Field(description="Any text.")], context: ToolContext, least: int = 1
    ) -> dict[str, Any]:
        """Counts the words.

        Those of a text.
        """
        return {"words": len([word for word in text.split() if len(word) >= least]), "in": str(context.cwd)}

    made = count_words()
    spec = made.spec()
    assert (spec.name, spec.description) == ("count_words", "Counts the words.\n\nThose of a text.")
    assert (spec.effect, spec.permission, spec.tags, spec.category) == (
        Effect.PURE,
        "read",
        ("words",),
        "tests",
    )
    assert spec.input_schema["required"] == ["text"]
    assert spec.input_schema["properties"]["text"]["description"] == "Any text."
    assert set(spec.input_schema["properties"]) == {"text", "least"}
    assert spec.input_schema["additionalProperties"] is False
    arguments = made.input_model.model_validate({"text": "a bc def", "least": 2})
    result = await made.execute(arguments, ToolContext(Path("/work"), "key"))
    assert result == ToolResult(output='{"words":2,"in":"/work"}')


class Answer(BaseModel):
    text: str


@requirement("P31", "T-06")
@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("as it is", "as it is"), (None, "done"), (3, "3"), ([1, "a"], '[1,"a"]'), (Answer(text="x"), '{"text":"x"}'),
        (ToolResult(output="no", is_error=True), "no"),
    ],
)  # fmt: skip
def test_what_a_function_returns_becomes_text(value: Any, output: str) -> None:
    assert as_result(value).output == output


@requirement("P31")
@pytest.mark.parametrize(
    "value", [b"x", {1, 2}, float("nan"), object(), {1: 2}, datetime(2026, 1, 1, tzinfo=UTC)]
)
def test_what_has_no_json_form_is_refused_where_it_was_returned(value: Any) -> None:
    with pytest.raises(ToolFailed, match="It ran; its result cannot be shown") as refused:
        as_result(value)
    assert refused.value.kind == "result_not_json"


def test_a_function_that_cannot_be_a_tool_is_refused_with_the_place() -> None:
    def plain(text: str) -> str:
        return text

    async def untyped(text) -> str:  # type: ignore[no-untyped-def]
        return str(text)

    async def open_ended(*texts: str) -> str:
        return "".join(texts)

    async def good(text: str) -> str:
        """Says it."""
        return text

    async def unsendable(stream: Unreadable) -> str:
        return ""

    async def hidden(_text: str) -> str:
        return _text

    for function, said in (
        (plain, "async"),
        (unsendable, "unsendable: .*schema"),
        (hidden, "_text begins with _"),
        (untyped, "text has no type"),
        (open_ended, "texts has no name"),
    ):
        with pytest.raises(AuthorError, match=said):
            tool(category="tests")(function)  # type: ignore[arg-type]
    for name, hint in (
        ("limits", "did you mean limit_s?"),
        ("aproval", "did you mean approval?"),
        ("zzz", "declare class variables of BaseTool"),
        ("_private", "declare class variables of BaseTool"),
        ("execute", "declare class variables of BaseTool"),
    ):
        with pytest.raises(AuthorError, match=f"nothing is declared as {name}") as refused:
            tool(category="tests", **{name: 3})(good)
        assert refused.value.hint == hint
    with pytest.raises(AuthorError, match="tags of good are 'one'"):
        tool(category="tests", tags="one")(good)().spec()
    with pytest.raises(AuthorError, match="has no category"):
        tool(category="")(good)().spec()
