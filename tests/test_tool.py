"""The contract of a tool: checked when it is registered, its schema generated, its effect cautious."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from roundturn.errors import AuthorError
from roundturn.tool import BaseTool, Effect, ToolContext, ToolResult
from tests.requirements import requirement


class Input(BaseModel):
    text: str


class Echo(BaseTool):
    name = "echo"
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
    assert (spec.effect, spec.brief, spec.always_ask, spec.origin) == (Effect.ONCE, False, False, "builtin")
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
        ({"limit_s": 0}, "limit_s"),
        ({"limit_s": -1.0}, "limit_s"),
        ({"limit_s": float("inf")}, "limit_s"),
        ({"limit_s": float("nan")}, "limit_s"),
    ],
)
def test_a_broken_contract_is_refused_with_what_to_change(attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(AuthorError, match=said) as refused:
        variant(**attributes).spec()
    assert refused.value.hint


@requirement("P134")
@pytest.mark.parametrize("name", ["a b", "ü", "a\n", "a/b", "x" * 65, "a.b", "\x1b[31m"])
def test_a_name_that_model_apis_refuse_is_refused_here(name: str) -> None:
    with pytest.raises(AuthorError, match="not accepted by model APIs"):
        variant(name=name).spec()


def test_a_brief_pure_tool_is_fine() -> None:
    assert variant(effect=Effect.PURE, brief=True).spec().brief


def test_a_missing_attribute_is_named() -> None:
    class Nameless(BaseTool):
        description = "d"
        input_model = Input

        async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
            return ToolResult(output="")

    with pytest.raises(AuthorError, match="tool Nameless has no name"):
        Nameless().spec()
