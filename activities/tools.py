"""One tool call: the context is built and the chain is run; nothing else here knows what a tool does (M-10)."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog
from pydantic import BaseModel
from temporalio import activity

from activities.failures import shutting_down, translating
from activities.heartbeat import beating
from activities.live_rules import LiveRules
from activities.snapshots import Snapshots
from roundturn import ids
from roundturn.call import CallContext, SessionRef, ToolExecutionResult
from roundturn.face import findable
from roundturn.jsontext import NotJson, parse_object
from roundturn.ledger import FINAL, OpenCall
from roundturn.registry import ToolRegistry
from roundturn.rules import STRICTNESS, RuleContext, decide
from roundturn.store import Store
from roundturn.tool import AGENT, FINDABLE, MAY_FOLLOW, Directive, Effect, ToolSpec


class ToolStep(BaseModel, frozen=True):
    """`grant`: the approval that was decided, on the way back in."""

    call: str
    grant: str | None = None


class BriefCalls(BaseModel, frozen=True):
    """The brief calls of a step that are made together, by their place in it."""

    turn: str
    step: int
    indexes: tuple[int, ...]


class ToolOutcome(BaseModel, frozen=True):
    """The result itself is in the ledger. `suspended`: wait for a person until `expires_at`.

    `directive`: what the tool asks of the workflow; one with `wait_s` comes with no result yet.
    """

    status: Literal["completed", "denied", "suspended", "fenced"]
    approval_id: str = ""
    expires_at: datetime | None = None
    directive: Directive | None = None


class ToolActivities:
    def __init__(self, store: Store, registry: ToolRegistry, snapshots: Snapshots) -> None:
        self._store = store
        self._registry = registry
        self._snapshots = snapshots
        self._live = LiveRules()

    @activity.defn
    @translating
    async def call_tool(self, step: ToolStep) -> ToolOutcome:
        """*At least once*: a result that stands is returned, a `once` call is never run a second time."""
        return await self._at(step)

    @activity.defn
    @translating
    async def call_tools(self, brief: BriefCalls) -> list[ToolOutcome | None]:
        """Side by side; None: it did not go well here, and is to be tried by itself, where its fault is told."""
        steps = [ToolStep(call=ids.call_id(brief.turn, brief.step, index)) for index in brief.indexes]
        done = await asyncio.gather(*(self._at(step) for step in steps), return_exceptions=True)
        for step, one in zip(steps, done, strict=True):
            if isinstance(one, asyncio.CancelledError):
                raise one
            if isinstance(one, BaseException):
                structlog.get_logger().warning("tool.tried_again", call=step.call, why=type(one).__name__)
        return [None if isinstance(one, BaseException) else one for one in done]

    async def _at(self, step: ToolStep) -> ToolOutcome:
        at = ids.CallPosition.parse(step.call)
        where = {"session": ids.session_of(at.turn), "turn": at.turn, "step": at.step, "call": step.call}
        with structlog.contextvars.bound_contextvars(**where):
            async with beating():
                return await self._call(step)

    async def _call(self, step: ToolStep) -> ToolOutcome:
        opened = await self._store.ledger.open_call(step.call)
        assert opened is not None, "a call is in the ledger before it is scheduled"
        row = opened.row
        if row.status in FINAL:
            return _outcome(ToolExecutionResult.standing(row))
        if not opened.may_begin:
            return ToolOutcome(status="fenced")
        ctx = await self._context(opened, step.grant)
        result = await self._uninterrupted(ctx)
        structlog.get_logger().info(
            "tool.returned",
            tool=row.tool[:64],
            status=result.status,
            error_type=result.error_type,
        )
        return _outcome(result)

    async def _context(self, opened: OpenCall, grant: str | None) -> CallContext:
        row = opened.row
        snapshot = await self._snapshots.get(opened.snapshot)
        spec = self._registry.spec(row.tool)
        if spec is not None:  # judged by the stricter of what it was when asked for and what it is now
            spec = replace(spec, effect=max(spec.effect, row.effect, key=lambda effect: effect.rank))
        try:
            arguments, fault = parse_object(row.arguments), ""
        except NotJson as not_json:
            arguments, fault = {}, str(not_json)
        frozen = snapshot.rules(opened.entries, opened.run_mode, opened.action_dir)
        rules = self._live.layer(opened.live).over(frozen)
        return CallContext(
            tool_call_id=row.id,
            tool_name=row.tool,
            arguments=arguments,
            arguments_error=fault,
            session=SessionRef(row.session, row.turn, opened.run, snapshot.agent.name, opened.generation),
            workdir=Path(opened.action_dir),
            visible_tool_names=snapshot.visible,
            unlisted=snapshot.unlisted,
            metadata={
                AGENT: snapshot.agent,
                FINDABLE: partial(findable, snapshot, self._registry, rules),
                MAY_FOLLOW: partial(_no_stricter, spec, rules, arguments),
            },
            spec=spec,
            rules=rules,
            grant=grant,
            attempt=uuid.uuid4().hex,
            may_have_run=row.effect is Effect.KEYED and (activity.info().attempt > 1 or opened.cut_off),
        )

    async def _uninterrupted(self, ctx: CallContext) -> ToolExecutionResult:
        """A lost heartbeat does not stop a `once` tool that lives; a stop and a shutdown do, each in its own name."""
        run = asyncio.create_task(self._registry.execute(ctx))
        once = ctx.spec is not None and ctx.spec.effect is Effect.ONCE
        while True:
            try:
                return await asyncio.shield(run)
            except asyncio.CancelledError:
                if run.cancelled():
                    raise
                why = activity.cancellation_details()
                if once and why is not None and (why.not_found or why.timed_out):
                    continue
                await _end(run)
                if not run.cancelled() and run.exception() is None:
                    return run.result()  # the chain caught it and said what it knows
                if why is not None and why.worker_shutdown:
                    raise shutting_down() from None
                raise


def _no_stricter(
    spec: ToolSpec | None, rules: RuleContext, asked: Mapping[str, Any], instead: Mapping[str, Any]
) -> bool:
    """Whether the rules say no more against other arguments than against those that were let pass."""
    if spec is None:
        return False
    before, after = (STRICTNESS[decide(spec, each, rules).effect] for each in (asked, instead))
    return after <= before


def _outcome(result: ToolExecutionResult) -> ToolOutcome:
    if result.suspension is None:
        return ToolOutcome(status=result.status, directive=result.directive)
    waits = result.suspension
    return ToolOutcome(status="suspended", approval_id=waits.approval, expires_at=waits.expires_at)


async def _end(run: asyncio.Task[ToolExecutionResult]) -> None:
    """Cancels and waits; a second cancellation of ours must not leave the tool behind."""
    run.cancel()
    while not run.done():
        try:
            await asyncio.wait({run})
        except asyncio.CancelledError:
            continue
