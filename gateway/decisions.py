"""Asks the decision function what it would say, with the rules of this installation and nothing run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import ValidationError

from roundturn.agent import Snapshot
from roundturn.agents import load_agents
from roundturn.doubts import doubts, idle_globs
from roundturn.errors import UsageError
from roundturn.face import freeze
from roundturn.jsontext import NotJson, cut, dump, parse_object
from roundturn.live_rules import NOTHING, LiveLayer
from roundturn.message import AskedCall
from roundturn.middleware.validation import with_defaults
from roundturn.mode import RunMode
from roundturn.registry import ToolRegistry, unknown_tool
from roundturn.rules import Decision, Layer, Rule, decide, depends_on_arguments, entries_of
from roundturn.run import Delegations
from roundturn.sandboxes import choose
from roundturn.settings import Settings
from roundturn.stores import files
from roundturn.tool import ToolSpec
from roundturn.tools import every_tool

SCHEMA_BYTES = 500


@dataclass(frozen=True)
class Place:
    """Where a call would be made. `delegated`: by a subagent of what came in there."""

    agent: str
    entry: str = "cli"
    mode: RunMode = "build"
    delegated: bool = False
    workdir: str = ""


@dataclass(frozen=True)
class Explained:
    """`by_arguments`: the decision is the most lenient one, and a call's arguments may change it."""

    spec: ToolSpec
    decision: Decision
    reads: bool
    by_arguments: bool


class Decisions:
    """This process's settings, agents and tools, and the live rules given. An embedder's own are not known here.

    Raises `ConfigurationError` and `AuthorError` for what cannot be read.
    """

    def __init__(self, settings: Settings, live: LiveLayer = NOTHING) -> None:
        self._settings = settings
        self._live = live
        self._agents = load_agents(settings.agents_dir)
        self._registry = ToolRegistry()
        sandbox, _ = choose(settings.sandbox, settings.home, files(settings.store_url))
        for tool, origin in every_tool(cast(Delegations, None), self._agents, sandbox):  # told of, never run
            self._registry.register(tool, origin)

    def doubts(self) -> list[str]:
        """Rules and settings that may let more pass than they say, or nothing."""
        layers = (self._settings.policy.layer, *(agent.layer for agent in self._agents.values()))
        specs = self._registry.specs()
        names = [spec.name for spec in specs if spec.privileged]
        idle = idle_globs(self._settings.privileged_tools, names)
        return [
            *(doubt for layer in layers for doubt in doubts(layer, specs, self._agents)),
            *(f"privileged_tools: no privileged tool that is known here is named {glob}" for glob in idle),
        ]

    def doubts_about(self, rules: Sequence[Rule]) -> list[str]:
        """The same of live rules."""
        return list(doubts(Layer(name="live", rules=tuple(rules)), self._registry.specs(), self._agents))

    def every(self, place: Place) -> list[Explained]:
        """Each tool of the installation as this agent would find it there, before it is called."""
        snapshot = self._snapshot(place)
        return [self._explained(spec, snapshot, place) for spec in self._registry.specs()]

    def one(self, tool: str, arguments: str | None, place: Place) -> Explained:
        """Of a call with these arguments (JSON); None: before it is called. Raises `UsageError`."""
        if arguments is not None:
            meant = self._registry.meant(AskedCall(provider_id="", name=tool, arguments=arguments))
            tool, arguments = meant.name, meant.arguments
        spec = self._registry.spec(tool)
        if spec is None:
            known = [spec.name for spec in self._registry.specs()]
            raise UsageError(unknown_tool(tool, known).detail, "see: roundturn inspect tools")
        snapshot = self._snapshot(place)
        if arguments is None:
            return self._explained(spec, snapshot, place)
        valid, reads = self._judged(tool, arguments)
        return self._explained(spec, snapshot, place, valid, reads)

    def _explained(
        self,
        spec: ToolSpec,
        snapshot: Snapshot,
        place: Place,
        arguments: Mapping[str, Any] | None = None,
        reads: bool | None = None,
    ) -> Explained:
        """A session's list is frozen before any call, and live rules only judge calls; a search asks them too."""
        frozen = snapshot.rules(entries_of(place.entry, int(place.delegated)), place.mode, place.workdir)
        now = self._live.over(frozen)
        shown = {tool["function"]["name"] for tool in snapshot.face(place.mode)}
        is_found = spec.name in snapshot.deferred and decide(spec, None, now).listed
        listed = spec.name in shown or is_found
        context = now if reads is None else now.reading(reads)
        decision = replace(decide(spec, arguments, context), listed=listed)
        if decision.effect != "deny" and spec.name not in (*snapshot.visible, *snapshot.unlisted):
            decision = self._not_given(spec, place)
        open_ = arguments is None and decision.effect != "deny" and depends_on_arguments(spec, now)
        return Explained(spec, decision, spec.may_only_read if reads is None else reads, open_)

    def _not_given(self, spec: ToolSpec, place: Place) -> Decision:
        delegates = self._agents[place.agent].delegates
        if self._registry.shown_to(spec.name, dict.fromkeys(delegates, "")) is None:
            return Decision("deny", "subagents", "agent", f"{place.agent} has no subagents", listed=False)
        return Decision("deny", "published", "platform", "a session is not given it", listed=False)

    def _judged(self, name: str, text: str) -> tuple[Mapping[str, Any], bool]:
        tool, spec = self._registry.get(name), self._registry.spec(name)
        assert tool is not None
        assert spec is not None
        try:
            sent = parse_object(text)
            parsed = tool.input_model.model_validate_json(dump(sent), strict=True)
        except NotJson as fault:
            raise UsageError(
                f"--args is not a JSON object: {fault}", """write it like --args '{"path": "a.txt"}'"""
            ) from None
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            raise UsageError(f"--args does not fit {name}: {where}: {first['msg']}", _schema(spec)) from None
        filled = parsed.model_dump(mode="json", by_alias=True)
        return with_defaults(sent, filled), spec.may_only_read and tool.is_read_only(parsed)

    def _snapshot(self, place: Place) -> Snapshot:
        agent = self._agents.get(place.agent)
        if agent is None:
            raise UsageError(
                f"there is no agent named {place.agent}",
                f"one of: {', '.join(sorted(self._agents))}"
                + ("" if self._settings.agents_dir else "; agents_dir is not set here"),
            )
        return freeze(agent, self._registry, self._settings, self._agents)


def _schema(spec: ToolSpec) -> str:
    return f"its schema: {cut(dump(spec.input_schema), SCHEMA_BYTES)}"
