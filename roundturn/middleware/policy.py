"""Asks the one decision function; a denial names its rule, layer and reason (M-13, R-15)."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.registry import ToolRegistry
from roundturn.rules import Decision, decide


class Policy:
    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        tool = self._registry.get(ctx.tool_name)
        if tool is None or ctx.spec is None or ctx.rules is None:
            return ToolExecutionResult.denied("Denied: no rules reached this call.", "tool_policy_denied", rule_id="",
                                              layer="platform", reason="no rules")  # fmt: skip
        rules = ctx.rules.reading(ctx.spec.may_only_read and tool.is_read_only(ctx.parsed))
        decision = decide(ctx.spec, ctx.arguments, rules)
        if decision.effect == "deny":
            return denial(decision)
        return await next(ctx.with_(decision=decision, read_only=rules.read_only is True))


def denial(decision: Decision) -> ToolExecutionResult:
    return ToolExecutionResult.denied(
        f"Denied by rule {decision.rule!r} of the {decision.layer} layer: {decision.reason}. The tool was not run.",
        "tool_policy_denied",
        rule_id=decision.rule,
        layer=decision.layer,
        reason=decision.reason,
    )
