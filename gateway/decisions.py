"""Asks the decision function what it would say, with the rules of this installation and nothing run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import ValidationError

from roundturn.agent import Snapshot
from roundturn.agents import load_agents
from roundturn.errors import UsageError
from roundturn.face import freeze
from roundturn.jsontext import NotJson, cut, dump, parse_object
from roundturn.live_rules import NOTHING, LiveLayer
from roundturn.message import AskedCall
from roundturn.mode import RunMode
from roundturn.registry import ToolRegistry, unknown_tool
from roundturn.rules import Decision, Layer, Rule, RuleContext, decide, doubts, entries_of
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
    spec: ToolSpec
    decision: Decision
    reads: bool


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
        """Rules that may let more pass than they say."""
        layers = (self._settings.policy.layer, *(agent.layer for agent in self._agents.values()))
        return [doubt for layer in layers for doubt in doubts(layer, self._registry.specs())]

    def doubts_about(self, rules: Sequence[Rule]) -> list[str]:
        """Of live rules: what may let more pass than it says, and what fits nothing that is known here."""
        specs = self._registry.specs()
        idle = [rule.id for rule in rules if not any(rule.fits_tool(spec) for spec in specs)]
        told = doubts(Layer(name="live", rules=tuple(rules)), specs)
        return [*told, *(f"rule {id_} of the live layer: no tool that is known here fits it" for id_ in idle)]

    def every(self, place: Place) -> list[Explained]:
        """Each tool of the installation as this agent would find it there, before it is called."""
        snapshot = self._snapshot(place)
        frozen = _rules(snapshot, place)
        offered = {*snapshot.visible, *snapshot.unlisted}
        found = []
        for spec in self._registry.specs():
            decision = self._decided(spec, None, frozen)
            if decision.effect != "deny" and spec.name not in offered:
                why = f"{place.agent} has no subagents"
                decision = Decision("deny", "subagents", "agent", why, listed=False)
            if spec.reaches_deferred and not snapshot.deferred:
                decision = replace(decision, listed=False)
            found.append(Explained(spec, decision, spec.may_only_read))
        return found

    def one(self, tool: str, arguments: str | None, place: Place) -> Explained:
        """Of a call with these arguments (JSON); None: before it is called. Raises `UsageError`."""
        if arguments is not None:
            meant = self._registry.meant(AskedCall(provider_id="", name=tool, arguments=arguments))
            tool, arguments = meant.name, meant.arguments
        spec = self._registry.spec(tool)
        if spec is None:
            known = [spec.name for spec in self._registry.specs()]
            raise UsageError(unknown_tool(tool, known).detail, "see: roundturn inspect tools")
        if arguments is None:
            return next(found for found in self.every(place) if found.spec == spec)
        valid, reads = self._judged(tool, arguments)
        frozen = _rules(self._snapshot(place), place).reading(reads)
        return Explained(spec, self._decided(spec, valid, frozen), reads)

    def _decided(self, spec: ToolSpec, arguments: Mapping[str, Any] | None, frozen: RuleContext) -> Decision:
        """What a session lists is frozen and live rules only judge its calls; a search asks them too."""
        decision = decide(spec, arguments, self._live.over(frozen))
        if spec.exposure == "deferred":
            return decision
        return replace(decision, listed=decide(spec, arguments, frozen).listed)

    def _judged(self, name: str, text: str) -> tuple[Mapping[str, Any], bool]:
        tool, spec = self._registry.get(name), self._registry.spec(name)
        assert tool is not None
        assert spec is not None
        try:
            parsed = tool.input_model.model_validate_json(dump(parse_object(text)), strict=True)
        except NotJson as fault:
            raise UsageError(
                f"--args is not a JSON object: {fault}", """write it like --args '{"path": "a.txt"}'"""
            ) from None
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            raise UsageError(f"--args does not fit {name}: {where}: {first['msg']}", _schema(spec)) from None
        return parsed.model_dump(mode="json"), spec.may_only_read and tool.is_read_only(parsed)

    def _snapshot(self, place: Place) -> Snapshot:
        agent = self._agents.get(place.agent)
        if agent is None:
            raise UsageError(
                f"there is no agent named {place.agent}", f"one of: {', '.join(sorted(self._agents))}"
            )
        return freeze(agent, self._registry, self._settings, self._agents)


def _rules(snapshot: Snapshot, place: Place) -> RuleContext:
    return snapshot.rules(entries_of(place.entry, int(place.delegated)), place.mode, place.workdir)


def _schema(spec: ToolSpec) -> str:
    return f"its schema: {cut(dump(spec.input_schema), SCHEMA_BYTES)}"
