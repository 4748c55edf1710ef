"""What people and programs ask of Roundturn: each call commits a row and then rings, or reads rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from roundturn import ids
from roundturn.approval import ApprovalRow, Verdict, VerdictOutcome
from roundturn.doorbell import Doorbell
from roundturn.errors import Refused, Unavailable, UsageError
from roundturn.event import TERMINAL, RunEvent
from roundturn.settings import Settings
from roundturn.store import Accepted, SessionRow, Store, TurnRow
from roundturn.stores import open_store

WAITS_FOR_STORE_S = 30.0  # a person's command waits for a locked store, it does not fail on it (P117)
PAGE = 500
FOLLOW_S = 0.15  # SQLite tells nobody of a commit; this is how late a follower may be
CONNECT_S = 10.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Sent:
    """`rung` is False when Temporal did not answer: the message is safe and the reconciler will ring for it."""

    accepted: Accepted
    rung: bool


class Client:
    """One store, one doorbell. Every method may be repeated."""

    def __init__(self, settings: Settings, store: Store, doorbell: Doorbell | None) -> None:
        self._settings = settings
        self.store = store
        self._doorbell = doorbell

    async def open_session(
        self, agent: str, workdir: Path | None, client_key: str | None = None
    ) -> SessionRow:
        """`workdir` becomes the action directory; without one the session gets its own under the home."""
        if client_key is not None and not ids.is_foreign_key(client_key):
            raise UsageError(
                f"session key {client_key!r} is not usable", "use letters, digits and _ . : - (200 at most)"
            )
        home = self._settings.home
        if workdir is not None and not workdir.is_dir():
            raise UsageError(f"{workdir} is not a directory", "create it or choose another --workdir")
        action_dir = str(workdir.resolve()) if workdir else str(home / "work" / "{session}")
        return await self.store.sessions.open(agent, action_dir, client_key)

    async def send(self, session: str, text: str, key: str | None = None) -> Sent:
        if not text.strip():
            raise UsageError("the message is empty", "say what the agent should do")
        if key is not None and not ids.is_foreign_key(key):
            raise UsageError(f"key {key!r} is not usable", "use letters, digits and _ . : - (200 at most)")
        accepted = await self.store.inbox.accept(session, text, key)
        if accepted is None:
            raise UsageError(f"there is no session {session}", "start one with: roundturn run TEXT")
        return Sent(accepted, await self._ring(accepted))

    async def _ring(self, accepted: Accepted) -> bool:
        if self._doorbell is None:
            return False
        try:
            if await self.store.inbox.should_ring(accepted.turn):
                await self._doorbell.ring(accepted.session)
                await self.store.inbox.mark_rung(accepted.turn)
        except Unavailable as fault:
            log.warning("doorbell.unheard", session=accepted.session, why=fault.detail)
            return False
        return True

    async def stop(self, target: str, origin: str) -> TurnRow:
        """A session's running or next turn, or the turn named; what ended already is returned as it is."""
        turn = await self.find_turn(target)
        stopped = await self.store.turns.request_stop(turn.id, origin)
        assert stopped is not None
        if stopped.state == "running":
            await self._wake(turn.id)
        return stopped

    async def find_turn(self, target: str) -> TurnRow:
        found = await (self.store.turns.read(target) if "/" in target else self.store.turns.last_of(target))
        if found is None:
            raise UsageError(f"there is no session or run {target}", "a session is s_… and a run is s_…/N")
        return found

    async def find_approval(self, prefix: str) -> ApprovalRow:
        """By a beginning of the id that is unique."""
        found = await self.store.approvals.find(prefix if prefix.startswith("ap_") else f"ap_{prefix}", 2)
        if len(found) != 1:
            what = "no approval" if not found else "more than one approval"
            raise UsageError(f"{what} begins with {prefix}", "see: roundturn approvals list")
        return found[0]

    async def decide(
        self, approval: str, verdict: Verdict, actor: str, note: str | None = None, digest: str | None = None
    ) -> VerdictOutcome:
        """An answer without a token is a claim: accepted only where the operator allows that (design section 6)."""
        if not self._settings.allow_unverified_verdicts:
            raise Refused(
                "verdicts without a token are not accepted here",
                "set ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS=true where everybody on this machine may approve",
            )
        outcome = await self.store.approvals.decide(approval, verdict, actor, True, "cli", note, digest)
        if outcome.standing in ("decided", "repeated", "late") and outcome.row is not None:
            await self._wake(outcome.row.turn)
        return outcome

    async def _wake(self, turn: str) -> None:
        try:
            if self._doorbell is not None:
                await self._doorbell.wake(turn)
        except Unavailable as fault:  # the row is committed; the reconciler wakes the turn
            log.warning("doorbell.unheard", turn=turn, why=fault.detail)

    async def follow(self, run: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """The run's events from `after` on, as they come, until its turn has ended."""
        ended = False
        while True:
            page = await self.store.journal.read(run, after, PAGE)
            for event in page:
                after = event.offset
                yield event
                if event.type == TERMINAL:
                    return
            if not page:
                if ended:  # asked for what lies behind the end
                    return
                turn = await self.store.turns.read(run)
                ended = turn is None or turn.ended_at is not None
                await asyncio.sleep(0 if ended else FOLLOW_S)


@asynccontextmanager
async def open_client(
    settings: Settings, *, temporal: bool = True, needed: bool = True
) -> AsyncIterator[Client]:
    """`temporal=False` for what only reads; `needed=False` goes on without it when it is away.

    Raises `Unavailable`, `ConfigurationError`.
    """
    async with open_store(settings.store_url, settings.home / "blobs", WAITS_FOR_STORE_S) as store:
        yield Client(settings, store, await _doorbell(settings, needed) if temporal else None)


async def _doorbell(settings: Settings, needed: bool) -> Doorbell | None:
    from workflows.doorbell import TemporalDoorbell  # half a second that readers of rows do not spend
    from workflows.wire import connect

    try:
        async with asyncio.timeout(CONNECT_S):
            return TemporalDoorbell(await connect(settings), settings)
    except (Unavailable, TimeoutError) as fault:
        if needed:
            if isinstance(fault, Unavailable):
                raise
            raise Unavailable(
                "the Temporal server does not answer", "is it overloaded or still starting?"
            ) from fault
        return None
