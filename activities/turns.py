"""Short SQL for a Turn: what a wake-up meant, a signalled verdict, an expiry, the end."""

import structlog
from pydantic import BaseModel
from temporalio import activity

from activities.endings import Endings
from activities.failures import translating
from roundturn.approval import Answer, SignalledVerdict
from roundturn.event import RunState
from roundturn.store import Store

log = structlog.get_logger()


class Look(BaseModel, frozen=True):
    """`decided`: those of the approvals asked about that are no longer pending."""

    running: bool
    stop_origin: str | None
    decided: tuple[str, ...]


class LookAt(BaseModel, frozen=True):
    """`waiting`: the approvals that the turn waits for."""

    turn: str
    waiting: tuple[str, ...]


class Ending(BaseModel, frozen=True):
    """How a turn ended; `reason` is one short line."""

    turn: str
    state: RunState
    reason: str
    steps: int


class Collect(BaseModel, frozen=True):
    """A call that waits for a subagent's result; with `last` it is settled without."""

    call: str
    last: bool


class TurnActivities:
    def __init__(self, store: Store, endings: Endings, allow_unverified_verdicts: bool) -> None:
        self._store = store
        self._endings = endings
        self._allow_unverified = allow_unverified_verdicts

    @activity.defn
    @translating
    async def look(self, at: LookAt) -> Look:
        seen = await self._store.turns.look(at.turn, at.waiting)
        return Look(running=seen.running, stop_origin=seen.stop_origin, decided=tuple(seen.decided))

    @activity.defn
    @translating
    async def offer_verdict(self, offer: SignalledVerdict) -> None:
        """A plain signal goes through the same compare-and-swap as every verdict; its actor is a claim."""
        bound = log.bind(approval=offer.approval_id, actor=offer.actor)
        if not self._allow_unverified:
            bound.warning("verdict.refused", why="unverified verdicts are off (allow_unverified_verdicts)")
            return
        answer = Answer(offer.verdict, offer.actor or "unnamed", unverified=True, via="signal")
        outcome = await self._store.approvals.decide(offer.approval_id, answer)
        bound.info("verdict.offered", verdict=offer.verdict, standing=outcome.standing)

    @activity.defn
    @translating
    async def expire_approval(self, approval: str) -> bool:
        """True when it is no longer pending, whoever decided; the database's clock has the last word."""
        row = await self._store.approvals.expire(approval)
        return row is None or row.state != "pending"

    @activity.defn
    @translating
    async def collect(self, wanted: Collect) -> bool:
        """True when the call has its result, whatever it is; repeated, the same."""
        return await self._store.runs.collect(wanted.call, wanted.last)

    @activity.defn
    @translating
    async def finish_turn(self, ending: Ending) -> bool:
        """The one terminal transaction; repeated or late, it changes nothing. True: the session's inbox is empty."""
        ended = await self._endings.end(ending.turn, ending.state, ending.reason, ending.steps)
        return ended.inbox_empty
