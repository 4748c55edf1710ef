"""Every gate holds when all the others are gone, and none is missed when another one is (X-01)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import pytest

from roundturn.call import ToolExecutionResult
from roundturn.registry import ToolRegistry
from roundturn.rules import Layer, Policy, Rule, RuleContext, decide
from roundturn.telemetry import HIDDEN
from roundturn.tool import Effect, Permission, ToolSpec
from tests.middleware.scene import NOW, Bench, Change, Look, context
from tests.requirements import requirement

ALLOWED = Policy(allow=("*",))


@dataclass(frozen=True)
class Attempted:
    """A call that one gate must stop; nothing else would."""

    error: str
    status: str = "denied"
    arguments: dict[str, Any] = field(default_factory=dict)
    policy: Policy = ALLOWED
    changes: dict[str, Any] = field(default_factory=dict)
    given: Callable[[Bench], None] = lambda bench: None


def full_hour(bench: Bench) -> None:
    bench.actions.free_at = NOW


def stopping(bench: Bench) -> None:
    bench.ledger.forced = "stopped"


GATES = {
    "shaping": Attempted("hidden_secret", arguments={"text": f"password = {HIDDEN}"}),
    "validation": Attempted("invalid_arguments", "completed", {"count": "5"}),
    "published": Attempted("tool_not_published", changes={"visible_tool_names": ("look",)}),
    "policy": Attempted("tool_policy_denied", policy=Policy(deny=("change",))),
    "action_budget": Attempted("action_budget", given=full_hour),
    "approval": Attempted("", "suspended", policy=Policy()),
    "claim": Attempted("turn_stopping", given=stopping),
}


async def tried(attempted: Attempted, gates: Collection[str]) -> tuple[ToolExecutionResult, int]:
    """The call through a chain of these gates, with recovery around them; and how often the tool ran."""
    tool = Change()
    bench = Bench(tool, Look())
    attempted.given(bench)
    chain = ToolRegistry()
    chain.register(tool)
    for name, layer in zip(bench.registry.chain, bench.registry._middleware, strict=True):
        if name == "recovery" or name in gates:
            chain.use(layer)
    ctx = context("change", attempted.arguments, attempted.policy, **attempted.changes)
    return await chain.execute(ctx.with_(spec=chain.spec("change"))), len(tool.runs)


@requirement("X-01", "M-20")
@pytest.mark.parametrize("gate", GATES)
async def test_a_gate_holds_with_all_the_others_gone(gate: str) -> None:
    _, runs = await tried(GATES[gate], ())
    assert runs == 1, "without any gate it would run, so that what follows is this gate's doing"
    result, runs = await tried(GATES[gate], (gate,))
    assert runs == 0
    assert result.metadata.get("error_type", "") == GATES[gate].error
    assert result.status == GATES[gate].status


@requirement("X-01")
@pytest.mark.parametrize(("gate", "gone"), list(permutations(GATES, 2)))
async def test_no_gate_needs_another_one(gate: str, gone: str) -> None:
    _, runs = await tried(GATES[gate], GATES.keys() - {gone})
    assert runs == 0


SPEC = ToolSpec("act", "d", {}, Effect.KEYED, 1, brief=False, category="tests", permission=Permission.WRITE)
SHELL = replace(SPEC, argument_kinds={"command": "command"})
FREE = RuleContext("assistant", (Policy(allow=("*",)).layer,))


def with_layer(name: Any) -> RuleContext:
    barred = Rule.model_validate({"id": "no", "effect": "deny", "match": {"name": "act"}})
    return replace(FREE, layers=(*FREE.layers, Layer(name=name, rules=(barred,))))


@requirement("X-01", "R-02", "X-02", "X-03")
@pytest.mark.parametrize(
    ("spec", "arguments", "rules", "effect", "layer"),
    [
        (replace(SPEC, privileged=True), {}, FREE, "deny", "platform"),
        (SPEC, {}, replace(FREE, unreadable="layers.0: broken"), "deny", "platform"),
        (SPEC, {}, with_layer("operator"), "deny", "operator"),
        (SPEC, {}, replace(FREE, mode="plan"), "deny", "run mode"),
        (SPEC, {}, with_layer("agent"), "deny", "agent"),
        (SPEC, {}, with_layer("embedder"), "deny", "embedder"),
        (SPEC, {}, RuleContext("assistant"), "ask", "default"),
        (replace(SPEC, approval="always"), {}, FREE, "ask", "platform"),
        (SHELL, {"command": "a; b"}, FREE, "ask", "platform"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_ground_of_the_decision_is_enough(
    spec: ToolSpec, arguments: dict[str, Any], rules: RuleContext, effect: str, layer: str
) -> None:
    assert decide(SPEC, {}, FREE).effect == "allow", "no other ground is left"
    decision = decide(spec, arguments, rules)
    assert (decision.effect, decision.layer) == (effect, layer)


def test_the_table_has_every_layer_of_the_chain_that_can_refuse() -> None:
    assert GATES.keys() == set(Bench().registry.chain) - {"audit", "recovery", "focus"}
