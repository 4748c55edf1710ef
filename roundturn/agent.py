"""An agent is a definition in a Markdown file: TOML front matter, then the prompt; a session works on a frozen copy."""

import re
import tomllib
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from roundturn.errors import ConfigurationError
from roundturn.rules import Policy

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
FENCE = "+++"

Tier = Literal["chat", "reasoning", "worker"]  # each may delegate to lower ones only


class SkillSource(BaseModel, frozen=True, extra="forbid"):
    """`{ skills = "*" }` among the subagents names no agent: skills are found by search (A-22)."""

    skills: Literal["*"]


class AgentDefinition(BaseModel, frozen=True, extra="forbid"):
    """`tools` are name globs. `model` and `max_steps` fall back to the operator's settings.

    `subagents`: whom it may delegate to. `max_result_chars`: of its answer, for the parent it works for.
    """

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    model: str | None = None
    max_steps: int | None = Field(default=None, ge=1, le=10_000)
    tools: tuple[str, ...] = ("*",)
    tier: Tier = "worker"
    subagents: tuple[str | SkillSource, ...] = ()
    max_result_chars: int = Field(default=16_000, ge=200, le=1_000_000)
    prompt: str = Field(min_length=1)

    @property
    def delegates(self) -> tuple[str, ...]:
        """The names among `subagents`."""
        return tuple(name for name in self.subagents if isinstance(name, str))


class Snapshot(BaseModel, frozen=True):
    """What a session's first turn froze: later turns see the same prompt, tools and rules (design section 4).

    `tools` are in the wire shape of chat completions; `visible` are their names.
    """

    agent: AgentDefinition
    model: str
    max_steps: int
    tools: tuple[dict[str, Any], ...]
    visible: tuple[str, ...]
    operator: Policy


def parse_definition(text: str, source: str) -> AgentDefinition:
    """Raises `ConfigurationError` naming `source` and the field."""
    match = re.match(
        rf"\s*{re.escape(FENCE)}\n(.*?)\n{re.escape(FENCE)}\n(.*)",
        text.removeprefix("\ufeff").replace("\r\n", "\n"),
        re.DOTALL,
    )
    if match is None:
        raise ConfigurationError(
            f"{source}: no front matter",
            f"begin the file with TOML between two lines of {FENCE}, then the prompt",
        )
    try:
        return AgentDefinition(**tomllib.loads(match[1]), prompt=match[2].strip())
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError(f"{source}: the front matter is not TOML: {fault}") from None
    except (ValidationError, TypeError) as fault:
        raise ConfigurationError(f"{source}: {_first_fault(fault)}") from None


def _first_fault(fault: ValidationError | TypeError) -> str:
    if isinstance(fault, TypeError):
        return "the prompt is the text below the front matter, not a key in it"
    first = fault.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
