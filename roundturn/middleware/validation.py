"""Arguments are strict JSON that fits the tool's schema, or the tool never runs (P04, P06, P08)."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import ToolFailed
from roundturn.jsontext import cut, dump
from roundturn.registry import ToolRegistry, unknown_tool
from roundturn.tool import ToolSpec

SHOWN_FAULTS = 5
SCHEMA_BYTES = 2_000


class Validation:
    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        tool = self._registry.get(ctx.tool_name)
        # A layer outside may have renamed the call: it is judged as the tool that would run.
        spec = ctx.spec if ctx.spec and ctx.spec.name == ctx.tool_name else self._registry.spec(ctx.tool_name)
        if tool is None or spec is None:
            raise unknown_tool(ctx.tool_name, ctx.known_names)
        if ctx.arguments_error:
            raise ToolFailed(
                f"The arguments are not valid JSON: {ctx.arguments_error}. "
                f"The tool was not run. Send one JSON object for this schema: {_schema(spec)}",
                "invalid_json",
            )
        try:
            # Strict: "5" is not 5 and 123 is not "123"; JSON mode, since arguments come from the wire.
            parsed = tool.input_model.model_validate_json(dump(dict(ctx.arguments)), strict=True)
        except ValidationError as fault:
            raise ToolFailed(
                f"{_faults(fault)} The tool was not run. Schema: {_schema(spec)}", "invalid_arguments"
            ) from None
        # What was sent is what rules, people and the digest see, whatever the author's model would make of it; defaults beside.
        filled = parsed.model_dump(mode="json", by_alias=True)
        arguments = with_defaults(ctx.arguments, filled)
        return await next(ctx.with_(parsed=parsed, arguments=arguments, sent=ctx.arguments, spec=spec))


def with_defaults(sent: Mapping[str, Any], filled: Mapping[str, Any]) -> dict[str, Any]:
    merged = {name: value for name, value in filled.items() if name not in sent}
    for name, value in sent.items():
        inner = filled.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            merged[name] = with_defaults(value, inner)
        else:
            merged[name] = value
    return merged


def _schema(spec: ToolSpec) -> str:
    return cut(dump(spec.input_schema), SCHEMA_BYTES)


def _faults(fault: ValidationError) -> str:
    shown = [
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"
        for each in fault.errors(include_url=False, include_input=False)[:SHOWN_FAULTS]
    ]
    return f"The arguments do not fit: {'; '.join(shown)}."
