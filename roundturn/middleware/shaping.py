"""On the way back: secrets are masked before anything is stored, and a result over the budget is cut for the model (P20, X-07)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.jsontext import clean_text, cut
from roundturn.store import Blobs

PIECE_CHARACTERS = 32 * 1024  # masking is some milliseconds of a processor for so many


class Shaping:
    """`budget_bytes` of UTF-8 is what the model gets of one result; `redact` masks its text."""

    def __init__(self, blobs: Blobs, budget_bytes: int, redact: Callable[[Any], Any]) -> None:
        self._blobs = blobs
        self._budget = budget_bytes
        self._redact = redact

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        result = await next(ctx)
        output = await self._redacted(clean_text(result.result.output))
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

    async def _redacted(self, text: str) -> str:
        """A long text in pieces, so that it keeps nobody waiting."""
        masked = []
        for piece in _pieces(text):
            masked.append(self._redact(piece))
            if len(text) > PIECE_CHARACTERS:
                await asyncio.sleep(0)
        return "".join(masked)


def _pieces(text: str) -> Iterator[str]:
    """Broken where no secret goes on: after a line, else after a blank. A word of more than a piece is broken all the same."""
    start = 0
    while start < len(text):
        end = start + PIECE_CHARACTERS
        if end < len(text):
            line = text.rfind("\n", start, end)
            blank = line if line > start else text.rfind(" ", start, end)
            end = blank + 1 if blank > start else end
        yield text[start:end]
        start = end
