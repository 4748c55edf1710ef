"""Takes the model's wish for its summary out of the arguments, which are the tool's alone."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.jsontext import clean_text, cut
from roundturn.registry import ToolRegistry
from roundturn.tool import FOCUS_ARGUMENT

FOCUS = "focus"  # in the metadata of the context and of the result
FOCUS_BYTES = 500


class Focus:
    """What is wanted of a long result: kept beside the call, so that neither digest nor approval depends on it."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        wanted = ctx.arguments.get(FOCUS_ARGUMENT)
        spec = self._registry.spec(ctx.tool_name)
        if (
            not isinstance(wanted, str)
            or spec is None
            or FOCUS_ARGUMENT in spec.input_schema.get("properties", {})
        ):
            return await next(ctx)
        focus = cut(clean_text(wanted), FOCUS_BYTES)
        arguments = {name: value for name, value in ctx.arguments.items() if name != FOCUS_ARGUMENT}
        result = await next(ctx.with_(arguments=arguments, metadata={**ctx.metadata, FOCUS: focus}))
        return result.model_copy(update={"metadata": {**result.metadata, FOCUS: focus}})
