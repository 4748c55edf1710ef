"""A call reaches only what its session was given: shown to the model, or callable by name (design section 4)."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.registry import unknown_tool


async def published(ctx: CallContext, next: Next) -> ToolExecutionResult:
    """Holds by itself: it asks no rules, only what the session's first turn froze."""
    if ctx.tool_name in ctx.visible_tool_names or ctx.tool_name in ctx.unlisted:
        return await next(ctx)
    told = unknown_tool(ctx.tool_name, ctx.visible_tool_names).detail
    return ToolExecutionResult.denied(
        f"Denied: this session was not given that tool. {told}. It was not run.", "tool_not_published"
    )
