"""On the way back: a result over the byte budget is kept whole in the blob store and cut for the model (P20)."""

from typing import Any

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.jsontext import clean_text, cut
from roundturn.store import Blobs


class Shaping:
    """`budget_bytes` of UTF-8 is what the model gets of one result."""

    def __init__(self, blobs: Blobs, budget_bytes: int) -> None:
        self._blobs = blobs
        self._budget = budget_bytes

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        result = await next(ctx)
        output = clean_text(result.result.output)
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
