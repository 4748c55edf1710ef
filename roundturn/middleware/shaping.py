"""What comes back is masked before it is stored and cut for the model (P20, X-07); what was masked is not sent on."""

from collections.abc import Awaitable, Callable
from typing import Any

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.jsontext import clean_text, cut, dump
from roundturn.store import Blobs
from roundturn.telemetry import HIDDEN

# A file that was read and is written back whole would lose what the model was not shown.
REFUSED = (
    f"Not run: the arguments hold {HIDDEN!r}, which stands for a secret that you were not shown and would replace it. "
    "Change only what is around it, with edit_file or a command."
)


class Shaping:
    """`budget_bytes` of UTF-8 is what the model gets of one result.

    `mask` takes a text of any length, and lets the event loop go on meanwhile.
    """

    def __init__(self, blobs: Blobs, budget_bytes: int, mask: Callable[[str], Awaitable[str]]) -> None:
        self._blobs = blobs
        self._budget = budget_bytes
        self._mask = mask

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        if HIDDEN in dump(dict(ctx.arguments)):
            return ToolExecutionResult.denied(REFUSED, "hidden_secret")
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
