"""Arguments fit the schema exactly, or the tool does not run and the model reads why."""

from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from roundturn.approval import binding_digest
from roundturn.call import CallContext, ToolExecutionResult
from roundturn.errors import ToolFailed
from roundturn.middleware.validation import Validation
from roundturn.registry import ToolRegistry
from tests.middleware.scene import Bench, Change, Input, Look, context, done
from tests.requirements import requirement


class Strict(BaseModel):
    text: str
    count: int = Field(1, ge=1)
    ratio: float = 0.5
    flag: bool = False
    names: tuple[str, ...] = ()


class Fussy(Look):
    name: ClassVar[str] = "fussy"
    input_model: ClassVar[type[BaseModel]] = Strict


async def passed_on(arguments: dict[str, Any], **changes: Any) -> CallContext:
    registry = ToolRegistry()
    registry.register(Fussy())
    seen: list[CallContext] = []

    async def inner(ctx: CallContext) -> ToolExecutionResult:
        seen.append(ctx)
        return await done(ctx)

    await Validation(registry)(context("fussy", arguments, **changes), inner)
    return seen[0]


@requirement("P08")
@pytest.mark.parametrize("text", ['[a]: {"b":1} rest', "123", "true", "null", '{"a":1}', "[1]", " x ", ""])
async def test_a_string_that_looks_like_something_else_stays_that_string(text: str) -> None:
    ctx = await passed_on({"text": text})
    assert ctx.arguments["text"] == text
    assert isinstance(ctx.parsed, Strict)
    assert ctx.parsed.text == text


@requirement("P08")
@pytest.mark.parametrize(
    "arguments",
    [
        {"text": 123}, {"text": True}, {"text": None}, {"text": ["a"]}, {},
        {"text": "a", "count": "5"}, {"text": "a", "count": 1.5}, {"text": "a", "count": True},
        {"text": "a", "count": 0}, {"text": "a", "flag": 1}, {"text": "a", "flag": "true"},
        {"text": "a", "names": "abc"}, {"text": "a", "names": [1]},
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_refused_with_the_place_and_the_schema(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed) as refused:
        await passed_on(arguments)
    assert refused.value.kind == "invalid_arguments"
    place = next((key for key in ("count", "flag", "names") if key in arguments), "text")
    assert f"The arguments do not fit: {place}" in refused.value.detail
    assert "The tool was not run." in refused.value.detail
    assert '"properties"' in refused.value.detail


async def test_defaults_and_whole_numbers_for_fractions_are_filled_in_as_json() -> None:
    ctx = await passed_on({"text": "a", "ratio": 2, "names": ["x"]})
    assert ctx.arguments == {"text": "a", "count": 1, "ratio": 2.0, "flag": False, "names": ["x"]}


@requirement("P06")
async def test_unreadable_arguments_are_never_taken_for_an_empty_object() -> None:
    tool = Change()
    bench = Bench(tool)
    result = await bench.call("change", {}, arguments_error="Expecting value at character 9")
    assert tool.runs == []
    assert bench.approvals.rows == {}, "nobody is asked about it"
    assert result.metadata["error_type"] == "invalid_json"
    assert "not valid JSON: Expecting value at character 9" in result.result.output
    assert '"count"' in result.result.output, "with the schema"


@requirement("P12")
async def test_an_invented_tool_is_named_back_safely_with_near_names() -> None:
    with pytest.raises(ToolFailed) as refused:
        await Validation(ToolRegistry())(context("lok\n\x1b[31m", visible_tool_names=("look", "x")), done)
    assert refused.value.kind == "tool_not_found"
    assert "\x1b" not in refused.value.detail
    assert "\n" not in refused.value.detail


async def test_many_faults_and_a_large_schema_are_bounded() -> None:
    fields: dict[str, Any] = {f"field_{n}": (int, ...) for n in range(200)}
    large = type("Large", (BaseModel,), {"__annotations__": dict.fromkeys(fields, int)})

    class Wide(Look):
        name: ClassVar[str] = "wide"
        input_model: ClassVar[type[BaseModel]] = large

    registry = ToolRegistry()
    registry.register(Wide())
    with pytest.raises(ToolFailed) as refused:
        await Validation(registry)(context("wide", {}), done)
    assert refused.value.detail.count("Field required") == 5
    assert len(refused.value.detail.encode()) < 3_000


@requirement("P131")
async def test_a_refused_value_is_not_echoed() -> None:
    with pytest.raises(ToolFailed) as refused:
        await passed_on({"text": "a", "count": "canary-secret"})
    assert "canary" not in refused.value.detail


class Hiding(BaseModel):
    """What an author's model may do to its own values."""

    model_config = ConfigDict(extra="forbid")
    target: str = Field(exclude=True)
    secret: SecretStr
    source: str = Field(alias="from")
    more: int = 3
    inner: Input = Input()


class Hides(Change):
    name = "hides"
    input_model = Hiding


@requirement("M-14", "M-25", "R-07")
async def test_rules_people_and_the_digest_see_what_was_sent_whatever_the_model_makes_of_it() -> None:
    sent = {"target": "ann", "secret": "hunter22", "from": "./a", "inner": {"count": 2}}
    seen = await asked(Hides(), sent)
    assert seen.arguments == {**sent, "more": 3, "inner": {"count": 2, "text": "none"}}
    assert seen.sent == sent
    other = await asked(Hides(), {**sent, "target": "EVIL"})
    assert binding_digest(seen) != binding_digest(other)


async def asked(tool: Change, arguments: dict[str, Any]) -> CallContext:
    """The context as it leaves the validation."""
    registry, found = ToolRegistry(), []
    registry.register(tool)

    async def kept(ctx: CallContext) -> ToolExecutionResult:
        found.append(ctx)
        return await done(ctx)

    await Validation(registry)(context(tool.name, arguments), kept)
    return found[0]
