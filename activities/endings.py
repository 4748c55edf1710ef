"""The end of a turn: one transaction, and then a call to whom its result concerns."""

import structlog

from roundturn import ids
from roundturn.doorbell import Doorbell
from roundturn.event import RunState
from roundturn.run import Finished, Wakeups
from roundturn.store import Store

log = structlog.get_logger()


class Endings:
    def __init__(self, store: Store, doorbell: Doorbell) -> None:
        self._store = store
        self._doorbell = doorbell

    async def end(self, turn: str, state: RunState, reason: str, steps: int) -> Finished:
        """Repeated or late, it only calls again. Raises `Unavailable`."""
        finished = await self._store.turns.finish(turn, state, reason, steps)
        log.info(
            "turn.ended",
            session=ids.session_of(turn),
            turn=turn,
            state=state,
            reason=reason,
            steps=steps,
            first=finished.first,
        )
        await self._notify(finished.wakeups)
        return finished

    async def _notify(self, wakeups: Wakeups) -> None:
        for session in wakeups.sessions:
            await self._doorbell.ring(session)
        for turn in wakeups.turns:
            await self._doorbell.wake(turn)
