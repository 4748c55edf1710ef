"""What people and programs ask of Roundturn: each call commits a row and then rings, or reads rows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import structlog

from gateway.journals import Journals
from gateway.workdirs import usable
from roundturn import ids
from roundturn.approval import Answer, ApprovalRow, State, Verdict, VerdictOutcome
from roundturn.doorbell import Doorbell
from roundturn.errors import Refused, Unavailable, UsageError
from roundturn.event import RunEvent
from roundturn.ledger import CallRow
from roundturn.mode import RunMode, known_mode
from roundturn.run import RunRow
from roundturn.settings import WORK, Settings
from roundturn.store import Accepted, SessionRow, Store, TurnRow
from roundturn.stores import open_store

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

WAITS_FOR_STORE_S = 30.0  # a person's command waits for a locked store, it does not fail on it (P117)
FOLLOW_S = 0.15  # SQLite tells nobody of a commit; this is how late a follower may be
LOOK_S = 0.05
CONNECT_S = 10.0
MOST_WAITS = 100  # that a list of sessions counts
EVERY_STATE: tuple[State, ...] = get_args(State)

log = structlog.get_logger()


@dataclass(frozen=True)
class Sent:
    """`rung` is False when Temporal did not answer: the message is safe and the reconciler will ring for it."""

    accepted: Accepted
    rung: bool


@dataclass(frozen=True)
class SessionOverview:
    """`turn`: what `find_turn` finds. `run`: the one at work. `waits`: requests of its tree that wait for a person."""

    row: SessionRow
    turn: TurnRow | None
    run: RunRow | None
    waits: int
    title: str


@dataclass(frozen=True)
class Question:
    """An approval with what surrounds it: where the call would work, and its row in the ledger."""

    row: ApprovalRow
    cwd: str
    call: CallRow | None


class Client:
    """One store, one doorbell. Every method may be repeated.

    `store` is for programs on the same machine that look deeper than a person does; the commands do not use it.
    """

    def __init__(self, settings: Settings, store: Store, doorbell: Doorbell | None) -> None:
        self._settings = settings
        self.store = store
        self._doorbell = doorbell

    async def open_session(
        self,
        agent: str,
        workdir: Path | None,
        client_key: str | None = None,
        *,
        entry: str = "library",
        run_mode: str = "build",
    ) -> SessionRow:
        """`workdir` becomes the action directory; without one the session gets its own under the home.

        An unknown `run_mode` is logged and taken for `build` (P-02).

        Raises `UsageError` for a key that is not usable, for a `workdir` that is no directory, and for one
        in which tools would see the home's own files.
        """
        if client_key is not None and not ids.is_foreign_key(client_key):
            raise UsageError(
                f"session key {client_key!r} is not usable", "use letters, digits and _ . : - (200 at most)"
            )
        work = self._settings.home / WORK
        action_dir = str(usable(workdir, self._settings)) if workdir else str(work / "{session}")
        mode = known_mode(run_mode)
        if mode is None:
            log.warning("run_mode.unknown", run_mode=run_mode[:64])
        return await self.store.sessions.open(agent, action_dir, client_key, entry, mode or "build")

    async def set_run_mode(self, target: str, mode: RunMode, actor: str) -> SessionRow:
        """Of a session and all that it delegated, from the next step and call on (P-01). Raises `UsageError`."""
        found = await self.store.sessions.set_run_mode((await self.find_session(target)).id, mode, actor)
        assert found is not None
        return found

    async def find_session(self, target: str) -> SessionRow:
        """By its id, or by a beginning of it that is unique. Raises `UsageError`."""
        session = await self._full(target)
        found = await self.store.sessions.read(session)
        if found is None:
            raise UsageError(f"there is no session {session}", "start one with: roundturn run TEXT")
        return found

    async def _full(self, target: str) -> str:
        """A session (`s_…`) or run (`s_…/N`) from a beginning of its id that is unique."""
        begin, slash, n = target.strip().partition("/")
        if ids.is_session_id(begin):
            return begin + slash + n
        begin = begin if begin.startswith("s_") else f"s_{begin}"
        found = await self.store.sessions.page(begin, 2) if len(begin) > len("s_") else []
        if len(found) != 1:
            what = "no session" if not found else "more than one session"
            raise UsageError(f"{what} begins with {target}", "see: roundturn sessions")
        return found[0].id + slash + n

    async def overview(self, limit: int) -> list[SessionOverview]:
        """Newest first."""
        return [await self._seen(row) for row in await self.store.sessions.page("", limit)]

    async def _seen(self, row: SessionRow) -> SessionOverview:
        turn = await self._present(row.id)
        run = await self.store.runs.at_work(row.id)
        waits = await self.approvals("pending", run.id, MOST_WAITS) if run else []
        first = await self.store.journal.read(ids.turn_id(row.id, 1), 0, 1)
        title = str(first[0].data.get("text", "")) if first else ""
        return SessionOverview(row, turn, run, len(waits), title)

    async def send(
        self,
        session: str,
        text: str,
        key: str | None = None,
        heard: Callable[[Accepted], None] = lambda accepted: None,
    ) -> Sent:
        """`heard` is told when the message is committed, before Temporal is rung."""
        refuse_empty(text)
        if key is not None and not ids.is_foreign_key(key):
            raise UsageError(f"key {key!r} is not usable", "use letters, digits and _ . : - (200 at most)")
        accepted = await self.store.inbox.accept(session, text, key)
        if accepted is None:
            raise UsageError(f"there is no session {session}", "start one with: roundturn run TEXT")
        heard(accepted)
        return Sent(accepted, await self._announce(accepted))

    async def _announce(self, accepted: Accepted) -> bool:
        try:
            if await self.store.inbox.should_ring(accepted.turn):
                if not await self._ring(accepted.session):
                    return False
                await self.store.inbox.mark_rung(accepted.turn)
        except Unavailable as fault:
            log.warning("doorbell.unheard", session=accepted.session, why=fault.detail)
            return False
        return True

    async def _ring(self, session: str) -> bool:
        try:
            if self._doorbell is not None:
                await self._doorbell.ring(session)
                return True
        except Unavailable as fault:  # the row is committed; the reconciler rings
            log.warning("doorbell.unheard", session=session, why=fault.detail)
        return False

    async def stop(self, target: str, origin: str) -> RunRow:
        """The run of what `find_turn` finds, with all that it delegated; what ended already is returned as it is."""
        turn = await self.find_turn(target)
        stopped = await self.store.turns.request_stop(turn.id, origin)
        assert stopped is not None
        for woken in stopped.wakeups.turns:
            await self._wake(woken)
        for session in stopped.wakeups.sessions:
            await self._ring(session)
        return await self.run(turn.run)

    async def run(self, run: str) -> RunRow:
        found = await self.store.runs.read(run)
        assert found is not None, "a turn belongs to a run"
        return found

    async def quiet(self, run: str, limit: timedelta) -> RunRow:
        """The run, once it and all that it delegated have ended, or as it stands after `limit`."""
        began = time.monotonic()
        while time.monotonic() - began < limit.total_seconds():
            if not await self._is_at_work(run):
                break
            await asyncio.sleep(LOOK_S)
        return await self.run(run)

    async def _is_at_work(self, run: str) -> bool:
        if (await self.run(run)).ended_at is None:
            return True
        return any([await self._is_at_work(child.id) for child in await self.store.runs.children(run)])

    async def find_turn(self, target: str) -> TurnRow:
        """A session's running turn, else the last of a run that waits for subagents, else the next, else the latest.

        Or the turn named (`s_…/N`). By beginnings as `find_session` takes them. Raises `UsageError`.
        """
        target = await self._full(target)
        found = await (self.store.turns.read(target) if "/" in target else self._present(target))
        if found is None:
            raise UsageError(f"there is no session or run {target}", "a session is s_… and a run is s_…/N")
        return found

    async def _present(self, session: str) -> TurnRow | None:
        last = await self.store.turns.last_of(session)
        run = await self.store.runs.at_work(session)
        if run is None or (last is not None and last.state == "running"):
            return last
        return (await self.store.turns.of_run(run.id))[-1]

    async def turns(self, target: str) -> list[TurnRow]:
        """All of a session, in their order. Raises `UsageError`."""
        return await self.store.turns.of_session((await self.find_session(target)).id)

    async def workflows(self, target: str) -> list[str]:
        """The workflow ids of a session with all its turns (`s_…`), of a run (`s_…/N`), or the workflow named.

        By beginnings as `find_session` takes them. Raises `UsageError`.
        """
        kind, slash, rest = target.partition("/")
        if kind == "session":
            return [ids.session_workflow(await self._full(rest))]
        if kind == "turn" or rest.isdigit():
            return [ids.turn_workflow(await self._full(rest if kind == "turn" else target))]
        if slash:
            return [target]
        session = (await self.find_session(target)).id
        turns = await self.turns(session)
        return [ids.session_workflow(session), *(ids.turn_workflow(turn.id) for turn in turns)]

    async def turns_of_run(self, run: str) -> list[TurnRow]:
        """In their order; the last one's text is the run's answer."""
        return await self.store.turns.of_run(run)

    async def find_approval(self, prefix: str) -> ApprovalRow:
        """By a beginning of the id that is unique."""
        found = await self.store.approvals.find(prefix if prefix.startswith("ap_") else f"ap_{prefix}", 2)
        if len(found) != 1:
            what = "no approval" if not found else "more than one approval"
            raise UsageError(f"{what} begins with {prefix}", "see: roundturn approvals list")
        return found[0]

    async def approvals(
        self, state: State | Literal["all"], run: str | None, limit: int
    ) -> list[ApprovalRow]:
        """Oldest first; of a run with all that it delegated, when one is named."""
        states = EVERY_STATE if state == "all" else (state,)
        if run is None:
            return await self.store.approvals.page(states, None, limit)
        found = [
            row
            async for turn in self._tree_turns(run)
            for row in await self.store.approvals.page(states, turn, limit)
        ]
        return sorted(found, key=lambda row: row.created_at)[:limit]

    async def _tree_turns(self, run: str) -> AsyncIterator[str]:
        for turn in await self.store.turns.of_run(run):
            yield turn.id
        for child in await self.store.runs.children(run):
            async for below in self._tree_turns(child.id):
                yield below

    async def approval_with_call(self, prefix: str) -> Question:
        row = await self.find_approval(prefix)
        session = await self.store.sessions.read(row.session)
        call = await self.store.ledger.read(row.call)
        return Question(row, session.action_dir if session else "", call)

    async def picked_up(self, approval: str, limit: timedelta) -> timedelta | None:
        """How long after its decision the run went on; None when that was not seen within `limit`."""
        began = time.monotonic()
        while (waited := timedelta(seconds=time.monotonic() - began)) < limit:
            row = await self.store.approvals.read(approval)
            if row is not None and row.consumed_at is not None and row.decided_at is not None:
                return row.consumed_at - row.decided_at
            call = await self.store.ledger.read(row.call) if row is not None else None
            if call is None or call.status != "suspended":
                return waited
            await asyncio.sleep(LOOK_S)
        return None

    async def decide(
        self, approval: str, verdict: Verdict, actor: str, note: str | None = None, digest: str | None = None
    ) -> VerdictOutcome:
        """An answer without a token is a claim: accepted only where the operator allows that (design section 6)."""
        if not self._settings.allow_unverified_verdicts:
            raise Refused(
                "verdicts without a token are not accepted here",
                "set ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS=true where everybody on this machine may approve",
            )
        answer = Answer(verdict, actor, unverified=True, via="cli", note=note, digest=digest)
        outcome = await self.store.approvals.decide(approval, answer)
        if outcome.standing in ("decided", "repeated", "late") and outcome.row is not None:
            await self._wake(outcome.row.turn)
        return outcome

    async def _wake(self, turn: str) -> None:
        try:
            if self._doorbell is not None:
                await self._doorbell.wake(turn)
        except Unavailable as fault:  # the row is committed; the reconciler wakes the turn
            log.warning("doorbell.unheard", turn=turn, why=fault.detail)

    async def events(self, run: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """The run's events behind the offset `after` that are there now."""
        async for event in Journals(run, subagents=False, after=after).news(self.store.journal):
            yield event

    async def tree_events(self, run: str) -> AsyncIterator[RunEvent]:
        """The events of the run and of its subagents' runs that are there now, by time."""
        async for event in Journals(run).news(self.store.journal):
            yield event

    async def follow(self, run: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """The run's events from `after` on, as they come, until it has ended; those of its subagents are not in it."""
        async for event in self.follow_journals(Journals(run, subagents=False, after=after)):
            yield event

    async def follow_journals(self, journals: Journals) -> AsyncIterator[RunEvent]:
        """What these journals have not shown yet, as it comes, until the root's run has ended."""
        while not journals.ended:
            quiet = True
            async for event in journals.news(self.store.journal):
                quiet = False
                yield event
            if quiet and await self._is_over(journals.root):
                async for event in journals.news(self.store.journal):
                    yield event
                return
            if quiet:
                await asyncio.sleep(FOLLOW_S)

    async def _is_over(self, run: str) -> bool:
        """Also of a run whose end lies before what was asked for, and of one that nobody knows."""
        row = await self.store.runs.read(run)
        return row is None or row.ended_at is not None


def refuse_empty(text: str) -> None:
    """Raises `UsageError`. By itself, so that no session is opened for nothing."""
    if not text.strip():
        raise UsageError("the message is empty", "say what the agent should do")


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

    try:
        return TemporalDoorbell(await connected(settings), settings)
    except Unavailable:
        if needed:
            raise
        return None


async def connected(settings: Settings) -> "TemporalClient":
    """Raises `Unavailable`, also when the server does not answer in time."""
    from workflows.wire import connect

    try:
        async with asyncio.timeout(CONNECT_S):
            return await connect(settings)
    except TimeoutError as fault:
        raise Unavailable(
            "the Temporal server does not answer", "is it overloaded or still starting?"
        ) from fault
