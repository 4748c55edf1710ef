"""What a tool or a layer raises becomes a classified result here, so that the layers outside still run (M-23)."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import ToolFailed, Unavailable
from roundturn.jsontext import clean_text, cut

SHOWN_BYTES = 2_000


async def recovery(ctx: CallContext, next: Next) -> ToolExecutionResult:
    """Only what may pass (`Unavailable`) and cancellation go through: Temporal repeats the attempt."""
    try:
        return await next(ctx)
    except Unavailable:
        raise
    except ToolFailed as fault:
        return ToolExecutionResult.failed(_shown(fault.detail), fault.kind)
    except Exception as fault:  # noqa: BLE001 - a tool may raise anything; the model reads what it was
        return ToolExecutionResult.failed(_shown(f"{type(fault).__name__}: {_text(fault)}"), "tool_error")


def _text(fault: Exception) -> str:
    try:
        return str(fault)
    except Exception:  # noqa: BLE001 - a __str__ that fails must not hide the failure it describes
        return "(its message cannot be shown)"


def _shown(text: str) -> str:
    return cut(clean_text(text), SHOWN_BYTES)
