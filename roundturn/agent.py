"""An agent is a definition in a Markdown file: TOML front matter, then the prompt; a session works on a frozen copy."""

import re
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from roundturn.errors import ConfigurationError
from roundturn.faults import first_fault, rule_at, toml
from roundturn.mode import RunMode
from roundturn.rules import Layer, Rule, RuleContext, check_ids, named

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
FENCE = "+++"

Tier = Literal["chat", "reasoning", "worker"]  # each may delegate to lower ones only


class SkillSource(BaseModel, frozen=True, extra="forbid"):
    """`{ skills = "*" }` among the subagents names no agent: skills are found by search (A-22)."""

    skills: Literal["*"]


class AgentDefinition(BaseModel, frozen=True, extra="forbid"):
    """`tools` are name globs; `disallowed_tools` and `rules` narrow them (R-04). `model` and `max_steps` fall back to
    the operator's settings.

    `subagents`: whom it may delegate to. `max_result_chars`: of its answer, for the parent it works for.
    """

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    model: str | None = None
    max_steps: int | None = Field(default=None, ge=1, le=10_000)
    tools: tuple[str, ...] = ("*",)
    disallowed_tools: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    tier: Tier = "worker"
    subagents: tuple[str | SkillSource, ...] = ()
    max_result_chars: int = Field(default=16_000, ge=200, le=1_000_000)
    prompt: str = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_are_good(self) -> Self:
        check_ids(self.rules)
        return self

    @property
    def layer(self) -> Layer:
        """What it may use at all, as rules."""
        theirs = f"the agent {self.name}"
        listed = named("allow", self.tools, f"{theirs} lists it", "tools")
        # An empty list names nothing: it is the glob that no name matches.
        nothing = () if self.tools else named("allow", ("",), "", "tools")
        barred = named("deny", self.disallowed_tools, f"{theirs} may not use it", "disallowed_tools")
        return Layer(name="agent", rules=(*barred, *listed, *nothing, *self.rules))

    @property
    def delegates(self) -> tuple[str, ...]:
        """The names among `subagents`."""
        return tuple(name for name in self.subagents if isinstance(name, str))


class Snapshot(BaseModel, frozen=True):
    """What a session's first turn froze: later turns see the same prompt, tools and rules (design section 4).

    `tools` are in the wire shape of chat completions; `visible` are the names of those that build mode shows, and
    `reading` of those that plan mode does. `unlisted`: callable by name though not shown: hidden by a rule, or
    `deferred`, which search finds. `layers`: the rules of operator, agent and embedder; `unreadable` says why they could
    not be read.
    """

    agent: AgentDefinition
    model: str
    max_steps: int
    tools: tuple[dict[str, Any], ...] = ()
    visible: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    privileged: tuple[str, ...] = ()
    unreadable: str = ""

    @model_validator(mode="before")
    @classmethod
    def _unreadable_rules_deny(cls, stored: Any) -> Any:
        """Rules that this version does not understand must neither be guessed nor end the session's turns (X-03)."""
        if not isinstance(stored, dict):
            return stored
        try:
            STORED_LAYERS.validate_python(stored.get("layers", ()))
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_input=False)[0]
            why = f"layers.{'.'.join(map(str, first['loc']))}: {first['msg']}"
            return {**stored, "layers": (), "unreadable": why}
        return stored

    def face(self, mode: RunMode) -> tuple[dict[str, Any], ...]:
        """What the model is shown: the same bytes for as long as the session's mode does not change (P92)."""
        names = self.visible if mode == "build" else self.reading
        return tuple(tool for tool in self.tools if tool["function"]["name"] in names)

    def rules(self, entries: tuple[str, ...] | None, mode: RunMode, workdir: str) -> RuleContext:
        """What a decision in this session depends on, all but the call."""
        return RuleContext(
            agent=self.agent.name,
            layers=self.layers,
            entries=entries,
            mode=mode,
            privileged=self.privileged,
            workdir=workdir,
            unreadable=self.unreadable,
        )


STORED_LAYERS = TypeAdapter(tuple[Layer, ...])


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
        written = toml(match[1])
    except ValueError as fault:
        raise ConfigurationError(f"{source}: the front matter is not TOML: {fault}") from None
    if "prompt" in written:
        raise ConfigurationError(f"{source}: the prompt is the text below the front matter, not a key in it")
    try:
        return AgentDefinition(**written, prompt=match[2].strip())
    except ValidationError as fault:
        place, said = first_fault(fault, AgentDefinition)
        raise ConfigurationError(f"{source}: {place}{rule_at(place, [written])}: {said}") from None
