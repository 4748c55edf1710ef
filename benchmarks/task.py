"""What both systems are asked to do: the same prompt, the same tools, the same endpoint."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from roundturn.tool import BaseTool, Effect, ToolContext, ToolResult

MODEL = "scripted"
PROMPT = "You are a helpful agent. Use the tool as you are told."
AGENT = "bench"
RESULT_CHARS = 200
KEY = "loopback-only"

DEFINITION = f"""\
+++
name = "{AGENT}"
tools = ["look", "fetch", "act", "job", "confirm"]
max_steps = 10000
+++

{PROMPT}
"""


class Echo(BaseModel):
    i: int
    data: str


class _Echoing(BaseTool):
    category = "bench"
    description = "Gives back what it was given."
    input_model = Echo

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult(output=echo(arguments.i, arguments.data))


class Look(_Echoing):
    name = "look"
    effect = Effect.PURE
    brief = True


class Fetch(_Echoing):
    name = "fetch"
    effect = Effect.PURE


class Act(_Echoing):
    name = "act"
    effect = Effect.ONCE
    limit_s = 30.0


class Job(_Echoing):
    """May be slow for all that is known of it."""

    name = "job"
    effect = Effect.ONCE


class Confirm(_Echoing):
    name = "confirm"
    effect = Effect.ONCE
    approval = "always"


TOOLS: tuple[type[BaseTool], ...] = (Look, Fetch, Act, Job, Confirm)


def echo(i: int, data: str) -> str:
    return f"{i} {data}"


def wire_tools() -> list[dict[str, Any]]:
    """The tool list as both systems send it."""
    specs = [tool().spec() for tool in TOOLS]
    return [
        {
            "type": "function",
            "function": {"name": s.name, "description": s.description, "parameters": s.input_schema},
        }
        for s in specs
    ]


def message(tool: str, steps: int, fanout: int = 1) -> str:
    """The scripted model asks for `fanout` calls of `tool` in each of `steps` steps, then answers."""
    return f"script: steps={steps} fanout={fanout} tool={tool} size={RESULT_CHARS}"


def write_agents(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{AGENT}.md").write_text(DEFINITION)
