"""What a tool or a layer raises becomes a classified result here, so that the layers outside still run (M-23)."""

from collections.abc import Awaitable, Callable

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import ToolFailed, Unavailable
from roundturn.jsontext import clean_text, cut

SHOWN_BYTES = 2_000


class Recovery:
    """`mask` takes a text of any length: an exception does not pass by the shaping of results (X-07)."""

    def __init__(self, mask: Callable[[str], Awaitable[str]]) -> None:
        self._mask = mask

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        """Only what may pass (`Unavailable`) and cancellation go through: Temporal repeats the attempt."""
        try:
            return await next(ctx)
        except Unavailable as fault:  # Temporal's history keeps what it says, and what its cause says
            fault.detail = await self._mask(clean_text(fault.detail))
            fault.args = (fault.detail,)
            raise fault from None
        except ToolFailed as fault:
            told, kind = fault.detail, fault.kind
        except Exception as fault:  # noqa: BLE001 - a tool may raise anything; the model reads what it was
            told, kind = f"{type(fault).__name__}: {_text(fault)}", "tool_error"
        # Masked before it is cut: half a secret is not known for one.
        return ToolExecutionResult.failed(cut(await self._mask(clean_text(told)), SHOWN_BYTES), kind)


def _text(fault: Exception) -> str:
    try:
        return str(fault)
    except Exception:  # noqa: BLE001 - a __str__ that fails must not hide the failure it describes
        return "(its message cannot be shown)"
