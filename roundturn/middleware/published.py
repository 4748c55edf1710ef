"""A call reaches only what its session was given: shown to the model, or callable by name (design section 4)."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.middleware.policy import denial
from roundturn.registry import unknown_tool
from roundturn.rules import decide


async def published(ctx: CallContext, next: Next) -> ToolExecutionResult:
    """Holds by itself, by what the session's first turn froze; the rules are only asked for the words (R-15)."""
    if ctx.tool_name in ctx.visible_tool_names or ctx.tool_name in ctx.unlisted:
        return await next(ctx)
    if ctx.spec is not None and ctx.rules is not None:
        decision = decide(ctx.spec, None, ctx.rules)
        if decision.effect == "deny":
            return denial(decision)
    told = unknown_tool(ctx.tool_name, ctx.known_names).detail
    return ToolExecutionResult.denied(
        f"Denied: this session was not given that tool. {told}. It was not run.", "tool_not_published"
    )
