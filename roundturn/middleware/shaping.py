"""On the way back: secrets are masked before anything is stored, and a result over the budget is cut for the model (P20, X-07)."""

from collections.abc import Awaitable, Callable
from typing import Any

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.jsontext import clean_text, cut
from roundturn.store import Blobs


class Shaping:
    """`budget_bytes` of UTF-8 is what the model gets of one result.

    `mask` takes a text of any length, and lets the event loop go on meanwhile.
    """

    def __init__(self, blobs: Blobs, budget_bytes: int, mask: Callable[[str], Awaitable[str]]) -> None:
        self._blobs = blobs
        self._budget = budget_bytes
        self._mask = mask

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        result = await next(ctx)
        output = await self._mask(clean_text(result.result.output))
        whole = output.encode()
        if len(whole) <= self._budget:
            return result.model_copy(update={"result": result.result.model_copy(update={"output": output})})
        kept: dict[str, Any] = {"original_bytes": len(whole)}
        try:
            kept["original"] = await self._blobs.put(whole)
        except (OSError, Unavailable) as fault:  # the tool has run: its result counts, cut as it is
            kept["original_lost"] = str(fault)
        short = result.result.model_copy(update={"output": cut(output, self._budget)})
        return result.model_copy(update={"result": short, "metadata": {**result.metadata, **kept}})
