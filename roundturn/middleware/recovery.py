"""What a tool or a layer raises becomes a classified result here, so that the layers outside still run (M-23)."""

from collections.abc import Callable
from typing import Any

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import ToolFailed, Unavailable
from roundturn.jsontext import clean_text, cut

SHOWN_BYTES = 2_000
READ_BYTES = 4 * SHOWN_BYTES  # masked before the last cut, which might leave half a secret


class Recovery:
    """`redact` masks what an error tells before anybody stores it (X-07)."""

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        """Only what may pass (`Unavailable`) and cancellation go through: Temporal repeats the attempt."""
        try:
            return await next(ctx)
        except Unavailable:
            raise
        except ToolFailed as fault:
            return ToolExecutionResult.failed(self._shown(fault.detail), fault.kind)
        except Exception as fault:  # noqa: BLE001 - a tool may raise anything; the model reads what it was
            return ToolExecutionResult.failed(
                self._shown(f"{type(fault).__name__}: {_text(fault)}"), "tool_error"
            )

    def _shown(self, text: str) -> str:
        masked: str = self._redact(cut(clean_text(text), READ_BYTES))
        return cut(masked, SHOWN_BYTES)


def _text(fault: Exception) -> str:
    try:
        return str(fault)
    except Exception:  # noqa: BLE001 - a __str__ that fails must not hide the failure it describes
        return "(its message cannot be shown)"
