"""At most so many side effects an hour by one job, whoever of its agents does them (X-11)."""

from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.store import Actions

SETTING = "max_actions_per_hour"


class ActionBudget:
    """Holds a place before a person is asked; the ledger gives it back when the call is refused (M-24)."""

    def __init__(self, actions: Actions, limit: int) -> None:
        self._actions = actions
        self._limit = limit

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        if ctx.read_only or (ctx.spec is not None and ctx.spec.directive):
            return await next(ctx)
        free_at = await self._actions.reserve(ctx.tool_call_id, self._limit)
        if free_at is None:
            return await next(ctx)
        room = (
            f"There is room again at {free_at:%Y-%m-%d %H:%M:%S} UTC." if self._limit else "None is allowed."
        )
        return ToolExecutionResult.denied(
            f"Not run: this job has used up its {self._limit} actions an hour ({SETTING}). {room} "
            "Tools that only read still run.",
            "action_budget",
        )
