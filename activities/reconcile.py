"""What a crash between a commit and its doorbell left behind is found in SQL and set going again (P41, P111, Q-10)."""

from datetime import timedelta

import structlog
from pydantic import BaseModel
from temporalio import activity

from activities.endings import Endings
from activities.failures import translating
from roundturn import ids
from roundturn.doorbell import Doorbell
from roundturn.store import Store

BATCH = 200
# Younger rows are on their normal way; a healthy system finds nothing here.
UNTAKEN_AGE = timedelta(seconds=5)
DECIDED_AGE = timedelta(seconds=5)
RUNNING_AGE = timedelta(seconds=30)

log = structlog.get_logger()


class Repairs(BaseModel, frozen=True):
    """How many of each kind; all zero when nothing was lost."""

    rung: int = 0
    woken: int = 0
    settled: int = 0


class ReconcileActivities:
    def __init__(self, store: Store, doorbell: Doorbell, endings: Endings) -> None:
        self._store = store
        self._doorbell = doorbell
        self._endings = endings

    @activity.defn
    @translating
    async def reconcile(self) -> Repairs:
        """One pass; each repair may be repeated."""
        repairs = Repairs(
            rung=await self._ring_untaken(),
            woken=await self._wake_unheard(),
            settled=await self._settle_closed(),
        )
        if repairs != Repairs():
            log.warning("reconcile.repaired", **repairs.model_dump())
        return repairs

    async def _ring_untaken(self) -> int:
        sessions = await self._store.inbox.untaken(UNTAKEN_AGE, BATCH)
        for session in sessions:
            await self._doorbell.ring(session)
        return len(sessions)

    async def _wake_unheard(self) -> int:
        """Of a verdict, a subagent's result, or a stop."""
        turns = await self._store.approvals.undelivered(DECIDED_AGE, BATCH)
        turns += await self._store.runs.unheard(DECIDED_AGE, BATCH)
        turns += await self._store.turns.stopping(BATCH)
        for turn in turns:
            await self._doorbell.wake(turn)
        return len(turns)

    async def _settle_closed(self) -> int:
        """Running here and closed there: nobody else will end it. Absent there is normal before a first start."""
        settled = 0
        for turn in await self._store.turns.running_since(RUNNING_AGE, BATCH):
            match await self._doorbell.standing(turn):
                case "closed":
                    reason = "its workflow was closed from outside"
                    settled += (await self._endings.end(turn, "failed", reason, 0)).first
                    await self._doorbell.ring(ids.session_of(turn))
                case "absent":
                    await self._doorbell.ring(ids.session_of(turn))
                case "running":
                    pass
        return settled
