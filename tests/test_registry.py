"""Tools by name: registered once, in one order, found by every surface, and answered for when they do not exist."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from roundturn.agent import AgentDefinition
from roundturn.call import CallContext, SessionRef, ToolExecutionResult
from roundturn.errors import AuthorError, ToolFailed
from roundturn.registry import ToolRegistry, unknown_tool
from roundturn.rules import Policy, RuleContext, decide
from roundturn.sandboxes.none import Unconfined
from roundturn.settings import Settings
from roundturn.tool import BaseTool, Directive, Effect, ToolContext, ToolResult
from roundturn.tools import BUILTIN, CONFINED, DELEGATION
from tests.requirements import requirement
from worker.snapshot import Freezer


class Input(BaseModel):
    text: str = "x"


class Greet(BaseTool):
    name = "greet"
    category = "tests"
    description = "Greets."
    input_model = Input
    effect = Effect.PURE

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult(output=f"hello {arguments.text} in {context.cwd} by {context.idempotency_key}")


def variant(**attributes: Any) -> BaseTool:
    made: BaseTool = type("Variant", (Greet,), attributes)()
    return made


def registry(*tools: BaseTool) -> ToolRegistry:
    made = ToolRegistry()
    for tool in tools:
        made.register(tool)
    return made


def context(tool: str, **arguments: Any) -> CallContext:
    session = SessionRef("s", "s/1", "s/1", "default")
    return CallContext("s/1.0.0", tool, arguments, session, Path("/work"), ("greet",))


@requirement("T-08")
def test_a_registered_tool_is_found_and_an_unknown_name_is_none() -> None:
    tool = Greet()
    made = registry(tool)
    assert made.get("greet") is tool
    assert made.spec("greet") == tool.spec()
    assert made.get("gret") is None
    assert made.spec("gret") is None


@requirement("P28")
def test_no_tool_takes_the_name_of_another() -> None:
    made = registry(Greet())
    with pytest.raises(AuthorError, match="greet is taken by Greet") as refused:
        made.register(variant())
    assert refused.value.hint == "rename Variant"


@requirement("T-03", "P92")
def test_schemas_have_three_fields_and_stand_in_order_of_registration() -> None:
    made = registry(*(variant(name=name) for name in ("c", "a", "b")))
    assert [schema["name"] for schema in made.to_api_schema()] == ["c", "a", "b"]
    assert made.to_api_schema()[0] == {
        "name": "c",
        "description": "Greets.",
        "input_schema": Input.model_json_schema(),
    }
    assert [spec.name for spec in made.specs()] == ["c", "a", "b"]


@pytest.mark.parametrize("wrap", [list, set, iter])
def test_only_the_wanted_schemas_are_given_whatever_names_them(wrap: Any) -> None:
    made = registry(*(variant(name=name) for name in ("c", "a", "b")))
    assert [schema["name"] for schema in made.to_api_schema(wrap(["b", "c", "invented"]))] == ["c", "b"]


@requirement("T-07")
async def test_a_tool_knows_its_directory_and_its_idempotency_key() -> None:
    result = await registry(Greet()).execute(context("greet", text="ann"))
    assert result.result.output == "hello ann in /work by s/1.0.0"


def plain() -> tuple[BaseTool, ...]:
    return (*(make() for make in BUILTIN.values()), *(make(Unconfined()) for make in CONFINED.values()))


@requirement("T-16", "T-09")
def test_a_tool_added_with_one_class_and_one_line_appears_everywhere() -> None:
    made = registry(*plain(), Greet())  # the class above, this line
    assert "greet" in [schema["name"] for schema in made.to_api_schema()]
    spec = made.spec("greet")
    assert spec is not None
    assert decide(spec, {}, RuleContext("a")).effect == "allow"
    assert decide(spec, {}, RuleContext("a", (Policy(deny=("gr*",)).layer,))).effect == "deny"
    agent = AgentDefinition(name="a", prompt="p")
    snapshot = Freezer({"a": agent}, made, Settings(privileged_tools=("*",)))("a", ".")
    assert "greet" in snapshot.visible
    assert [tool["function"]["name"] for tool in snapshot.tools][-1] == "greet"
    reaching = {
        name for name, cls in BUILTIN.items() if cls.reaches_deferred
    }  # here there is nothing to reach
    assert set(snapshot.visible) == {*BUILTIN, *CONFINED, "greet"} - reaching


@requirement("T-09")
def test_the_built_in_tools_are_listed_under_their_own_names() -> None:
    assert [tool.spec().name for tool in plain()] == [*BUILTIN, *CONFINED]


async def test_arguments_are_validated_even_without_a_chain() -> None:
    with pytest.raises(ValueError, match="valid string"):
        await registry(Greet()).execute(context("greet", text=[1]))


@requirement("P12")
async def test_an_unknown_tool_is_a_failure_for_the_model() -> None:
    with pytest.raises(ToolFailed) as refused:
        await registry(Greet()).execute(context("gret"))
    assert refused.value.kind == "tool_not_found"


@requirement("P12")
def test_the_answer_to_an_invented_name_is_bounded_and_printable() -> None:
    many = [f"tool_{n}" for n in range(500)]
    assert str(unknown_tool("serch_web", [*many, "search_web"])).endswith("did you mean search_web?")
    for name in ("n\n\x1b[31m" * 2_000, "ü" * 5_000_000, "", "zzz"):
        said = str(unknown_tool(name, many))
        assert said.isprintable()
        assert len(said) < 500
    assert "available: none" in str(unknown_tool("x", []))


class Slow(Greet):
    name = "slow"
    limit_s = 0.05

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        return ToolResult(output="never")


async def test_a_tool_is_ended_at_its_limit() -> None:
    with pytest.raises(ToolFailed, match="ended after its limit of 0") as failed:
        await registry(Slow()).execute(context("slow"))
    assert failed.value.kind == "tool_timeout"


async def test_a_timeout_of_the_tools_own_is_not_taken_for_the_limit() -> None:
    class Impatient(Greet):
        async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
            raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await registry(Impatient()).execute(context("greet"))


class Shown(BaseModel):
    words: Any


class Sideways:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@requirement("T-06", "T-16", "P31")
@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("as it is", "as it is"), (None, "done"), ({"n": 1}, '{"n":1}'), (Shown(words=["a"]), '{"words":["a"]}'),
        (ToolResult(output="no", is_error=True), "no"),
    ],
)  # fmt: skip
async def test_what_a_class_returns_becomes_text_as_a_functions_does(value: Any, output: str) -> None:
    class Loose(Greet):
        async def execute(self, arguments: Any, context: ToolContext) -> Any:
            return value

    result = await registry(Loose()).execute(context("greet"))
    assert (result.status, result.result.output) == ("completed", output)
    assert result.result.is_error is isinstance(value, ToolResult)


@requirement("T-06", "P31")
@pytest.mark.parametrize(
    "value",
    [
        object(), b"x", {1: 2}, Sideways(), Shown(words=object()), Shown(words="\ud800"),
        ToolResult(output="x").model_copy(update={"output": 1}),
    ],
)  # fmt: skip
async def test_what_cannot_be_shown_is_said_to_have_run(value: Any) -> None:
    class Wrong(Greet):
        effect = Effect.ONCE

        async def execute(self, arguments: Any, context: ToolContext) -> Any:
            return value

    with pytest.raises(ToolFailed, match="^It ran; its result cannot be shown: .") as failed:
        await registry(Wrong()).execute(context("greet"))
    assert failed.value.kind == "result_not_json"


async def test_the_chain_is_named_for_people() -> None:
    async def mine(ctx: CallContext, next: Any) -> ToolExecutionResult:
        result: ToolExecutionResult = await next(ctx)
        return result

    class Layer:
        async def __call__(self, ctx: CallContext, next: Any) -> ToolExecutionResult:
            result: ToolExecutionResult = await next(ctx)
            return result

    made = registry(Greet())
    made.use(mine)
    made.use(Layer())
    assert made.chain == ["mine", "layer"]
    assert (await made.execute(context("greet"))).status == "completed"


async def test_only_a_tool_that_says_so_may_ask_the_workflow_for_something() -> None:
    async def start(self: BaseTool, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult(output="x", directive=Directive(start="s_b"))

    made = registry(variant(name="sly", execute=start), variant(name="open", execute=start, directive=True))
    with pytest.raises(AuthorError, match="^It ran; tool sly returned a directive"):
        await made.execute(context("sly"))
    assert (await made.execute(context("open"))).metadata == {"directive": {"start": "s_b"}}


def test_only_an_agent_with_subagents_is_shown_delegation_and_whom_it_may_send() -> None:
    made = ToolRegistry()
    agents = {
        "boss": AgentDefinition(name="boss", tier="chat", subagents=("helper",), prompt="p"),
        "helper": AgentDefinition(name="helper", description="Looks things up.", prompt="p"),
    }
    for delegate in DELEGATION.values():
        made.register(delegate(cast(Any, None), agents))
    freeze = Freezer(agents, made, Settings())
    assert freeze("helper", ".").visible == ()
    boss = freeze("boss", ".")
    assert boss.visible == ("spawn_subagent", "wait_subagent")
    assert "- helper: Looks things up." in boss.tools[0]["function"]["description"]


@requirement("P30", "P134")
@pytest.mark.parametrize("name", ["a b", "ü", "a\n", "a/b", "x" * 65, "a.b", "\x1b[31m", "a__b", "_a"])
def test_a_name_of_ours_that_could_not_stand_on_the_wire_is_refused(name: str) -> None:
    with pytest.raises(AuthorError, match="not accepted by model APIs") as refused:
        registry(variant(name=name))
    assert "single underscores" in refused.value.hint


@requirement("P28", "P30")
async def test_tools_of_another_program_get_names_under_its_own_and_shadow_nothing() -> None:
    made = registry(Greet())
    left_out = made.mount(
        "hostile", [variant(name=name) for name in ("greet", "a/b", "", "日本", "x" * 200, "greet")]
    )
    left_out += made.mount("other", [variant(name="greet")])
    assert [line.split(":")[0] for line in left_out] == ["hostile", "hostile"]
    assert "without a name" in left_out[0]
    assert "is taken" in left_out[1]
    greet = made.get("greet")
    assert type(greet) is Greet
    theirs = made.spec("hostile__greet")
    assert theirs is not None
    assert (theirs.tool, theirs.origin) == ("greet", "mcp:hostile")
    assert made.spec("other__greet") is not None
    assert len(made.specs()) == 6
    result = await made.execute(context("hostile__greet", text="ann"))
    assert result.result.output.startswith("hello ann")


@requirement("P28")
def test_a_rule_for_a_tool_of_ours_is_not_one_for_theirs() -> None:
    made = registry(Greet())
    made.mount("hostile", [variant(name="greet", effect=Effect.ONCE)])
    rules = RuleContext("a", (Policy(allow=("greet",)).layer,))
    ours, theirs = made.spec("greet"), made.spec("hostile__greet")
    assert ours is not None
    assert theirs is not None
    assert decide(ours, {}, rules).effect == "allow"
    assert decide(theirs, {}, rules).effect == "deny"


@requirement("P28", "R-13")
def test_a_name_that_differs_in_capitals_only_is_taken() -> None:
    """Rules could not tell the two apart: `allow = ["greet"]` would let both run."""

    class Shouting(Greet):
        name = "GREET"

    registry = ToolRegistry()
    registry.register(Greet())
    with pytest.raises(AuthorError, match="taken by Greet"):
        registry.register(Shouting())
    told = registry.mount("web", [Greet(), Shouting()])
    assert len(told) == 1
    assert "is taken" in told[0]
