"""What an agent sees: its tools as the rules show them, frozen for a session; the calls are judged by the same function."""

from collections.abc import Mapping
from typing import Any

from roundturn.agent import AgentDefinition, Snapshot
from roundturn.mode import RUN_MODES, RunMode
from roundturn.registry import ToolRegistry
from roundturn.rules import Decision, Layer, Rule, RuleContext, decide
from roundturn.settings import Settings
from roundturn.tool import ToolSpec


def freeze(
    agent: AgentDefinition,
    registry: ToolRegistry,
    settings: Settings,
    agents: Mapping[str, AgentDefinition],
    embedder: tuple[Rule, ...] = (),
) -> Snapshot:
    """The session's copy of all that its turns depend on. `agents`: those that it may delegate to are among them."""
    layers = (settings.policy.layer, agent.layer, Layer(name="embedder", rules=embedder))
    snapshot = Snapshot(
        agent=agent,
        model=agent.model or settings.model,
        max_steps=agent.max_steps or settings.max_steps,
        layers=tuple(layer for layer in layers if layer.rules),
        privileged=settings.privileged_tools,
    )
    delegates = {name: agents[name].description for name in agent.delegates if name in agents}
    told = {spec.name: registry.shown_to(spec.name, delegates) for spec in registry.specs()}
    specs = [spec for spec in registry.specs() if told[spec.name] is not None]
    found = {mode: judged(snapshot, specs, mode) for mode in RUN_MODES}
    deferred = [spec.name for spec in specs if spec.exposure == "deferred" and _any_lists(found, spec)]
    shown = {
        mode: tuple(
            spec.name
            for spec in specs
            if decisions[spec.name].listed
            and spec.exposure == "listed"
            and (deferred or not spec.reaches_deferred)
        )
        for mode, decisions in found.items()
    }
    in_some_mode = {name for names in shown.values() for name in names}
    callable_ = {
        name for decisions in found.values() for name, one in decisions.items() if one.effect != "deny"
    }
    return snapshot.model_copy(
        update={
            "tools": tuple(
                _wire_shape(spec, told[spec.name] or "") for spec in specs if spec.name in in_some_mode
            ),
            "visible": shown["build"],
            "reading": shown["plan"],
            "deferred": tuple(deferred),
            "unlisted": tuple(sorted(callable_ - set(shown["build"]))),
        }
    )


def judged(snapshot: Snapshot, specs: list[ToolSpec], mode: RunMode) -> dict[str, Decision]:
    """Wherever the work comes in: what only one entry bars is shown, and denied at the call."""
    rules = snapshot.rules(None, mode, "")
    return {spec.name: decide(spec, None, rules) for spec in specs}


def _any_lists(found: Mapping[RunMode, Mapping[str, Decision]], spec: ToolSpec) -> bool:
    return any(decisions[spec.name].listed for decisions in found.values())


def findable(snapshot: Snapshot, registry: ToolRegistry, rules: RuleContext) -> list[ToolSpec]:
    """What search may show: the deferred tools, as they are now, that the same function would let be called (R-01)."""
    specs = [spec for name in snapshot.deferred if (spec := registry.spec(name)) is not None]
    return [spec for spec in specs if decide(spec, None, rules).listed]


def _wire_shape(spec: ToolSpec, description: str) -> dict[str, Any]:
    function = {"name": spec.name, "description": description, "parameters": dict(spec.input_schema)}
    return {"type": "function", "function": function}
