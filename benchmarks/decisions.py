"""What deciding costs: 500 tools under 50 rules of every kind, the first time for a set of rules, and again.

Nothing else waits in it, and so the thread's own CPU time is taken: others on the machine do not count. Each round has
names, globs and rules that no round before it had, so that only what no set of rules can share is known already.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

from roundturn.agent import STORED_LAYERS, AgentDefinition
from roundturn.rules import Layer, Policy, Rule, RuleContext, decide
from roundturn.tool import Effect, Permission, ToolSpec

SERVERS, EACH, RULES = 20, 25, 50
ROUNDS = 15
VERBS = {
    "read": Permission.READ, "list": Permission.READ, "search": Permission.READ, "create": Permission.WRITE,
    "update": Permission.WRITE, "delete": Permission.WRITE, "send": Permission.NETWORK, "run": Permission.EXECUTE,
    "export": Permission.NETWORK, "merge": Permission.WRITE,
}  # fmt: skip


def decision_rows() -> list[tuple[str, str, str]]:
    """What was measured, its milliseconds, the target."""
    _round("unrelated")
    cold, parsed, again = zip(*(_round(f"r{number}x") for number in range(ROUNDS)), strict=True)
    what = f"`decide` for {SERVERS * EACH} tools under {RULES} rules"
    return [
        (f"{what}, new rules", _told(cold), "under 10 ms"),
        (f"{what}, rules just parsed that this process has met", _told(parsed), "under 10 ms"),
        (f"{what}, again", _told(again), ""),
    ]


def _told(taken: Sequence[float]) -> str:
    return f"{statistics.median(taken):.1f} ms ({min(taken):.1f} to {max(taken):.1f})"


def _round(word: str) -> tuple[float, float, float]:
    tools = specs(word)
    new, parsed = (RuleContext("bench", layers(word), entries=("cli",)) for _ in range(2))
    return decided_ms(tools, new), decided_ms(tools, parsed), decided_ms(tools, parsed)


def decided_ms(tools: Sequence[ToolSpec], context: RuleContext) -> float:
    began = time.thread_time()
    for spec in tools:
        decide(spec, None, context)
    return (time.thread_time() - began) * 1000


def specs(word: str) -> list[ToolSpec]:
    """Those of 20 servers; `word` stands in every name, so that two sets have none in common."""
    return [_spec(word, server, number) for server in range(SERVERS) for number in range(EACH)]


def _spec(word: str, server: int, number: int) -> ToolSpec:
    verb, permission = list(VERBS.items())[number % len(VERBS)]
    reads = permission is Permission.READ
    return ToolSpec(
        name=f"mcp_{word}{server}_{verb}_item{number}",
        description="d",
        input_schema={},
        effect=Effect.PURE if reads else Effect.ONCE,
        limit_s=30,
        brief=False,
        category="shell" if verb == "run" else "files",
        family=f"{word}{server}",
        tags=("reads" if reads else "changes", "external" if server % 2 else "internal"),
        permission=permission,
        origin=f"mcp:{word}{server}",
        argument_kinds={"path": "path", "command": "command"},
    )


def layers(word: str) -> tuple[Layer, ...]:
    """50 rules of three authors, as a new session gets them: parsed from the text that the store keeps."""
    operator = Policy(
        deny=(f"mcp_{word}3_delete_*", f"mcp_{word}4_run_item7", f"mcp_{word}*_merge_*"),
        ask=(f"mcp_{word}5_*", f"mcp_{word}6_send_item6", f"mcp_{word}1?_export_*"),
        rules=tuple(_rule(word, number) for number in range(20)),
    )
    agent = AgentDefinition(
        name="bench",
        prompt="p",
        tools=("*_read_*", "*_list_*", f"mcp_{word}7_*", f"mcp_{word}8_*", f"mcp_{word}1*", "*_run_item7"),
        disallowed_tools=(f"mcp_{word}9_delete_*", f"mcp_{word}11_update_item4"),
        rules=tuple(_rule(word, number) for number in range(20, 28)),
    )
    embedder = Layer(name="embedder", rules=tuple(_rule(word, number) for number in range(28, 36)))
    made = (operator.layer, agent.layer, embedder)
    assert sum(len(layer.rules) for layer in made) == RULES
    return STORED_LAYERS.validate_json(STORED_LAYERS.dump_json(made))


def _rule(word: str, number: int) -> Rule:
    family = f"{word}{number % SERVERS}"
    kinds: tuple[dict[str, Any], ...] = (
        {"effect": "deny", "match": {"name": f"mcp_{family}_delete_*"}, "except": {"tags": "internal"}},
        {"effect": "require_approval", "match": {"family": family, "min_permission": "network"}},
        {"effect": "deny", "match": {"origin": f"mcp:{family}", "side_effects": True}, "when": {"mode": "plan"}},
        {"effect": "auto_approve", "match": {"name": [f"mcp_{family}_send_item6", f"mcp_{family}_create_*"]}},
        {"effect": "hide", "match": {"tags": ["external", f"{word}*"], "category": "shell"}},
        {"effect": "deny", "match": {"name": f"*{family}*", "argument": {"name": "path", "glob": f"{word}/{number}/*"}}},
        {"effect": "require_approval", "match": {"name": "*", "min_permission": "execute"}, "when": {"entry": ["webhook", f"{word}-*"]}},
        {"effect": "auto_approve", "match": {"family": family, "max_permission": "write"}, "when": {"agent": "bench*"}},
        {"effect": "deny", "match": {"name": f"mcp_{family}_run_*", "argument": {"name": "command", "glob": "git push *"}}},
    )  # fmt: skip
    return Rule.model_validate({"id": f"{word}-{number}", "reason": "because", **kinds[number % len(kinds)]})
