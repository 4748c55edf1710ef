"""The tools by name and the one chain around them; every call goes through `execute` (M-04, M-10)."""

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from roundturn.call import CallContext, Middleware, Next, ToolExecutionResult
from roundturn.errors import AuthorError, ToolFailed
from roundturn.ids import printable
from roundturn.message import AskedCall
from roundturn.names import insist_free, insist_plain, wire_name
from roundturn.tool import BUILTIN, DIRECTIVE, BaseTool, ToolContext, ToolSpec, as_result

NEAR_NAMES = 5


class ToolRegistry:
    """Built once at worker start, read-only afterwards."""

    def __init__(self, tool_context: Callable[[CallContext], ToolContext] | None = None) -> None:
        self._tools: dict[str, BaseTool] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._middleware: list[Middleware] = []
        self._closed = False
        self._tool_context = tool_context or (lambda ctx: ToolContext(ctx.workdir, ctx.tool_call_id))

    def register(self, tool: BaseTool, origin: str = BUILTIN) -> None:
        """Of this process. Raises `AuthorError` for a broken contract or a name that is taken (P28)."""
        spec = tool.spec(origin)
        insist_plain(spec.name, type(tool).__name__)
        self._add(tool, spec)

    def mount(self, server: str, tools: Iterable[BaseTool]) -> list[str]:
        """Of another program, which chose the names: each gets one of its own under the server's.

        What cannot be taken is left out and told in a line; a hostile name stops nothing (P28, P30).
        """
        left_out = []
        for tool in tools:
            try:
                if not tool.name.strip():
                    raise AuthorError("a tool without a name")
                self._add(tool, tool.spec(f"mcp:{server}", wire_name(server, tool.name)))
            except AuthorError as fault:
                left_out.append(
                    f"{printable(server)}: {printable(tool.name)!r} is left out: {fault.detail[:200]}"
                )
        return left_out

    def _add(self, tool: BaseTool, spec: ToolSpec) -> None:
        # Rules do not tell capital from small letters in a name, so two names differ in more.
        holder = next(
            (each for name, each in self._tools.items() if name.casefold() == spec.name.casefold()), None
        )
        insist_free(spec.name, type(tool).__name__, None if holder is None else type(holder).__name__)
        self._tools[spec.name] = tool
        self._specs[spec.name] = spec

    def get(self, name: str) -> BaseTool | None:
        return self._tools.get(name)

    def spec(self, name: str) -> ToolSpec | None:
        return self._specs.get(name)

    def specs(self) -> list[ToolSpec]:
        """In order of registration, the same in every process (P92)."""
        return list(self._specs.values())

    def shown_to(self, name: str, delegates: Mapping[str, str]) -> str | None:
        """As the tool itself says (`BaseTool.shown_to`)."""
        return self._tools[name].shown_to(delegates)

    def meant(self, asked: AskedCall) -> AskedCall:
        """The call that is judged and run, when the tool that was called stands for another (T-26)."""
        tool = self.get(asked.name)
        other = None if tool is None else tool.stands_for(asked.arguments)
        if other is None:
            return asked
        name, arguments = other
        return asked.model_copy(update={"name": name, "arguments": arguments})

    def to_api_schema(self, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """`{name, description, input_schema}` of each tool, generated from its input model (T-03)."""
        wanted = self._specs.keys() if names is None else set(names)
        return [
            {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
            for spec in self._specs.values()
            if spec.name in wanted
        ]

    def use(self, middleware: Middleware) -> None:
        """Appends a layer: first registered is entered first and left last (M-03).

        Raises `AuthorError` once the chain is closed: inside the approval a layer could change what was approved (P37).
        """
        if self._closed:
            raise AuthorError("the chain is closed", "hand the middleware to the assembly, as `extra`")
        self._middleware.append(middleware)

    def close_chain(self) -> None:
        self._closed = True

    @property
    def chain(self) -> list[str]:
        return [getattr(layer, "__name__", _words(type(layer).__name__)) for layer in self._middleware]

    async def execute(self, ctx: CallContext) -> ToolExecutionResult:
        """Runs the chain around the tool; without middleware, the tool's own result as `completed`."""
        run: Next = self._terminal
        for layer in reversed(self._middleware):
            run = partial(_enter, layer, run)
        return await run(ctx)

    async def _terminal(self, ctx: CallContext) -> ToolExecutionResult:
        tool = self.get(ctx.tool_name)
        if tool is None:
            raise unknown_tool(ctx.tool_name, ctx.known_names)
        arguments = ctx.parsed if ctx.parsed is not None else tool.input_model.model_validate(ctx.arguments)
        name, limit_s = ctx.tool_name, self._specs[ctx.tool_name].limit_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                return _returned(tool, await tool.execute(arguments, self._tool_context(ctx)))
        except TimeoutError:
            if not limit.expired():  # the tool's own, not ours
                raise
            raise ToolFailed(f"{name} was ended after its limit of {limit_s:g} s", "tool_timeout") from None


def _returned(tool: BaseTool, value: Any) -> ToolExecutionResult:
    """Raises for what cannot be shown or asked for, and says that the tool has run: nobody is to try it again."""
    result = as_result(value)
    if result.directive is None:
        return ToolExecutionResult.completed(result)
    if not tool.directive:
        raise AuthorError(
            f"It ran; tool {tool.name} returned a directive and is not declared to", "set `directive`"
        )
    return ToolExecutionResult.completed(
        result, **{DIRECTIVE: result.directive.model_dump(exclude_defaults=True)}
    )


def _words(name: str) -> str:
    """`ActionBudget` as `action_budget`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


async def _enter(layer: Middleware, run: Next, ctx: CallContext) -> ToolExecutionResult:
    return await layer(ctx, run)


def unknown_tool(name: str, visible: Iterable[str]) -> ToolFailed:
    """What the model reads when it invents a tool (P12): near names first, bounded, nothing raw."""
    known = sorted(visible)
    near = difflib.get_close_matches(name[:64], known, NEAR_NAMES, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"available: {', '.join(known[:20]) or 'none'}"
    return ToolFailed(f"There is no tool named {printable(name)!r}; {hint}", "tool_not_found")
