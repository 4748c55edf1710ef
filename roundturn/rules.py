"""The only decision function: may this tool be called here, by whose rule, and must a person say yes."""

import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from roundturn.tool import ToolSpec

Verdict = Literal["allow", "ask", "deny"]
STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Policy(BaseModel, frozen=True, extra="forbid"):
    """The operator's lists of name globs. A non-empty `allow` denies whatever neither it nor `ask` names (M-13)."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleContext:
    """What a decision depends on beside the tool: the agent's list, the operator's policy, this call's nature.

    `unreadable` says why the policy could not be read; then everything is denied (X-03).
    """

    agent: str
    agent_tools: tuple[str, ...]
    operator: Policy
    read_only: bool
    unreadable: str = ""


@dataclass(frozen=True)
class Decision:
    """`rule` and `layer` name who decided, so that a denial can be explained (R-15)."""

    effect: Verdict
    rule: str
    layer: str
    reason: str

    @property
    def listed(self) -> bool:
        return self.effect != "deny"


def decide(spec: ToolSpec, arguments: Mapping[str, Any], context: RuleContext) -> Decision:
    """Total: every tool and every argument gets an answer. Layers are conjunctive, the strictest opinion wins.

    `arguments` is for rules on arguments; today's layers look at names and effects.
    """
    opinions = [
        *_platform(spec, context),
        *_operator(spec, context.operator),
        *_agent(spec, context),
    ]
    if opinions:
        return max(opinions, key=lambda opinion: STRICTNESS[opinion.effect])
    if context.read_only:
        return Decision("allow", "read-only", "default", "it only reads")
    if spec.directive:
        return Decision("allow", "directive", "default", "it asks the workflow, whose own gates follow")
    return Decision("ask", "side-effect", "default", f"{spec.name} changes something ({spec.effect.value})")


def _platform(spec: ToolSpec, context: RuleContext) -> Iterable[Decision]:
    if context.unreadable:
        yield Decision("deny", "unreadable", "platform", f"the policy cannot be read: {context.unreadable}")
    if spec.always_ask:
        yield Decision(
            "ask",
            "always-ask",
            "platform",
            f"{spec.name} can reach beyond the action directory; nothing waives a person here",
        )


def _operator(spec: ToolSpec, policy: Policy) -> Iterable[Decision]:
    if pattern := first_match(policy.deny, spec.name):
        yield Decision("deny", f"deny {pattern}", "operator", "the operator's deny list names it")
    if pattern := first_match(policy.ask, spec.name):
        yield Decision("ask", f"ask {pattern}", "operator", "the operator wants a person to decide")
    elif pattern := first_match(policy.allow, spec.name):
        yield Decision("allow", f"allow {pattern}", "operator", "the operator's allow list names it")
    elif policy.allow:
        yield Decision("deny", "allow", "operator", "the operator's allow list does not name it")


def _agent(spec: ToolSpec, context: RuleContext) -> Iterable[Decision]:
    if not first_match(context.agent_tools, spec.name):
        yield Decision("deny", "tools", "agent", f"the agent {context.agent} does not list it")


def first_match(patterns: Iterable[str], name: str) -> str | None:
    """The first glob that matches; the one matcher of the product (R-14)."""
    return next((pattern for pattern in patterns if _compiled(pattern).fullmatch(name)), None)


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """`*` and `?` only, ASCII case-insensitive; anything else stands for itself (R-13).

    fnmatch's translation does not backtrack over many stars; of its words, only the bracket is not ours.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")), re.IGNORECASE | re.ASCII)
