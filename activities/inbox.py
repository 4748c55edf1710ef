"""Short SQL for a Session: what is next, and what to do when a turn's workflow cannot be started or is gone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel
from temporalio import activity

from activities.endings import Endings
from activities.failures import translating
from activities.snapshots import Snapshots
from roundturn.agent import Snapshot
from roundturn.errors import ConfigurationError
from roundturn.store import NotYet, Store

STARTS_BEFORE_GIVING_UP = 3


class CallOptions(BaseModel, frozen=True):
    """Operator's numbers that shape a turn's activities; recorded in history, so that a replay sees the same."""

    tools_queue: str
    heartbeat_s: float
    model_limit_s: float
    model_attempts: int


class TakenItem(BaseModel, frozen=True):
    """The turn to run next; ids and numbers only."""

    turn: str
    agent: str
    max_steps: int
    options: CallOptions


class Pause(BaseModel, frozen=True):
    """Only results of subagents wait, and more may come: ask again after so many seconds, or when rung."""

    pause_s: float


class InboxActivities:
    """`freeze` builds the snapshot of an agent, by name, for a directory; raises `ConfigurationError` when it cannot."""

    def __init__(
        self,
        store: Store,
        endings: Endings,
        snapshots: Snapshots,
        freeze: Callable[[str, str], Snapshot],
        options: CallOptions,
    ) -> None:
        self._store = store
        self._endings = endings
        self._freeze = freeze
        self._options = options
        self._snapshots = snapshots

    @activity.defn
    @translating
    async def next_inbox_item(self, session: str) -> TakenItem | Pause | None:
        """Repeated, it gives the same row until that turn has ended (*at least once*)."""
        while (taken := await self._store.inbox.take(session)) is not None:
            if isinstance(taken, NotYet):
                return Pause(pause_s=taken.wait.total_seconds())
            try:
                snapshot = await self._snapshot(session)
            except (
                ConfigurationError,
                OSError,
            ) as fault:  # this row cannot run; the next may, after a new deploy
                await self._endings.end(taken.turn, "failed", f"it cannot start: {fault}"[:300], 0)
                continue
            return TakenItem(
                turn=taken.turn,
                agent=snapshot.agent.name,
                max_steps=snapshot.max_steps,
                options=self._options,
            )
        return None

    async def _snapshot(self, session: str) -> Snapshot:
        digest = await self._store.sessions.snapshot(session)
        if digest is None:
            row = await self._store.sessions.read(session)
            assert row is not None
            await asyncio.to_thread(Path(row.action_dir).mkdir, parents=True, exist_ok=True)
            digest = await self._store.sessions.freeze(
                session, self._freeze(row.agent, row.action_dir).model_dump_json()
            )
        return await self._snapshots.get(digest)

    @activity.defn
    @translating
    async def note_failed_start(self, turn: str) -> bool:
        """Counts a start that Temporal refused; after three the row is settled as failed. True: given up."""
        if await self._store.inbox.count_start(turn) < STARTS_BEFORE_GIVING_UP:
            return False
        ended = await self._endings.end(turn, "failed", "its workflow could not be started", 0)
        return ended.first
