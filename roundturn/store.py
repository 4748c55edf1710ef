"""The ports of the store: each method is one transaction that says what it found.

Repeated, because nobody heard whether it committed, it changes nothing more, unless its own words say otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from roundturn.approval import Answer, ApprovalRow, NewApproval, VerdictOutcome
from roundturn.call import Attempt
from roundturn.errors import Unavailable
from roundturn.event import NewEvent, RunEvent, RunState, TurnState
from roundturn.ledger import CallRow, Claim, OpenCall, Outcome, PlannedCall, StoredReply
from roundturn.live_rules import LiveRulesRow
from roundturn.message import Entry, Reply, Usage
from roundturn.mode import RunMode
from roundturn.rules import entries_of
from roundturn.run import Delegations, Finished, RunRow, Wakeups

T = TypeVar("T")


@dataclass(frozen=True)
class SessionRow:
    id: str
    agent: str
    action_dir: str
    generation: int
    snapshot: str | None
    parent: str | None
    depth: int
    entry: str
    run_mode: RunMode
    created_at: datetime

    @property
    def entries(self) -> tuple[str, ...]:
        return entries_of(self.entry, self.depth)


@dataclass(frozen=True)
class Stopped:
    turn: "TurnRow"
    wakeups: Wakeups


@dataclass(frozen=True)
class Accepted:
    """A message is in the inbox. `repeated`: its key was known, this is the turn it made then."""

    session: str
    turn: str
    position: int
    repeated: bool


@dataclass(frozen=True)
class Taken:
    """The inbox row that a session works on; the same again until its turn has ended."""

    turn: str


@dataclass(frozen=True)
class NotYet:
    """Only results wait, and more may come: ask again after so long, or when rung."""

    wait: timedelta


@dataclass(frozen=True)
class TurnRow:
    """`stop_origin` is set once a stop was accepted; `text` is what the model said last; times are aware UTC."""

    id: str
    session: str
    run: str
    generation: int
    state: Literal["queued"] | TurnState
    reason: str
    text: str
    steps: int
    stop_origin: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    usage: Usage = Usage()


@dataclass(frozen=True)
class Look:
    """What a turn asks after a wake-up: may it go on, and which of its approvals are no longer pending."""

    running: bool
    stop_origin: str | None
    decided: Mapping[str, str]


@dataclass(frozen=True)
class Conversation:
    """A session's transcript, or the end of it, and the results of its calls, keyed by call id."""

    entries: tuple[Entry, ...]
    results: Mapping[str, str]


@dataclass(frozen=True)
class OpenStep:
    """All that a model call needs, read at one moment; `snapshot` is the digest of the session's.

    `stored`: the reply is there already. `may_begin`: the turn runs and no stop was accepted. `news`: the
    entries after the one that the caller had, or all when it had another generation's.
    """

    stored: StoredReply | None
    may_begin: bool
    session: str
    run: str
    generation: int
    snapshot: str
    run_mode: RunMode
    news: Conversation


class Sessions(Protocol):
    async def open(
        self,
        agent: str,
        action_dir: str,
        client_key: str | None = None,
        entry: str = "library",
        run_mode: RunMode = "build",
    ) -> SessionRow:
        """A new session; with a `client_key` that is known, the session it made then. Repeated without one, a second."""

    async def set_run_mode(self, session: str, mode: RunMode, actor: str) -> SessionRow | None:
        """Of the session and of all that it delegated, from the next step and call on; None: no such session (P-01)."""

    async def read(self, session: str) -> SessionRow | None: ...

    async def page(self, prefix: str, limit: int) -> list[SessionRow]:
        """Those whose id begins with `prefix`, newest first."""

    async def freeze(self, session: str, snapshot: str) -> str:
        """Stores the snapshot (JSON) if none is set; returns the digest of the one that holds."""

    async def snapshot(self, session: str) -> str | None:
        """The digest of the frozen one."""

    async def snapshot_body(self, digest: str) -> str | None: ...


class Inbox(Protocol):
    async def accept(self, session: str, text: str, key: str | None = None) -> Accepted | None:
        """Commits a message and its turn id; None when there is no such session.

        With a `key` that is known, what was accepted then; repeated without one, a second message.
        """

    async def should_ring(self, turn: str) -> bool:
        """Read after the commit: False only while an older untaken row is marked as rung (design section 1)."""

    async def mark_rung(self, turn: str) -> None: ...

    async def take(self, session: str) -> Taken | NotYet | None:
        """The row this session already took, else the oldest message, else the results that have come together.

        What is taken has its turn running and its text in the transcript. A read, and a write transaction after it
        only when something waits.
        """

    async def count_start(self, turn: str) -> int:
        """How often a start of this turn's workflow has failed, this time included; repeated, it counts again."""

    async def untaken(self, older_than: timedelta, limit: int) -> list[str]:
        """Sessions with work that waits; the reconciler rings for them."""


class Turns(Protocol):
    async def read(self, turn: str) -> TurnRow | None: ...

    async def look(self, turn: str, waiting: Sequence[str]) -> Look:
        """`waiting`: the approvals asked about; those no longer pending are in the answer."""

    async def last_of(self, session: str) -> TurnRow | None:
        """The running turn, else the oldest queued, else the latest."""

    async def of_session(self, session: str) -> list[TurnRow]:
        """All, in the order of their numbers."""

    async def of_run(self, run: str) -> list[TurnRow]:
        """All, in the order of their numbers; the last one's text is the run's answer."""

    async def request_stop(self, turn: str, origin: str) -> Stopped | None:
        """Accepts a stop of the turn and of all that its run delegated; open approvals are cancelled with it.

        A turn that has ended while its run has not, since subagents work for it, is how a waiting run is stopped.
        """

    async def finish(self, turn: str, state: RunState, reason: str, steps: int) -> Finished:
        """The terminal transaction: compare-and-swap from running; settles calls, approvals and the inbox row.

        With it the run ends when nothing more can come of it, and a subagent's result goes to its parent.
        """

    async def stopping(self, limit: int) -> list[str]:
        """Turns that run although a stop was accepted; most of them are just about to hear of it."""

    async def running_since(self, older_than: timedelta, limit: int) -> list[str]:
        """Turns to look after, the longest unchecked first; asking marks them as checked."""


class Transcript(Protocol):
    async def open_step(self, turn: str, step: int, generation: int, seq: int) -> OpenStep | None:
        """`generation` and `seq`: what the caller has already (-1, 0: nothing). None: no such turn."""

    async def store_reply(
        self, turn: str, step: int, reply: Reply, calls: Sequence[PlannedCall], started_at: datetime
    ) -> StoredReply | None:
        """First attempt wins, later ones get its reply; None when the turn does not run any more (fence).

        Every attempt is charged, the one whose reply is kept once; `started_at` tells attempts apart. Repeated
        for a turn that does not run any more, it charges again.
        """


class Ledger(Protocol):
    async def read(self, call: str) -> CallRow | None: ...

    async def open_call(self, call: str) -> OpenCall | None: ...

    async def claim(
        self, call: str, owner: str, lease: timedelta | None, grant: str | None, digest: str
    ) -> Claim:
        """Compare-and-swap before a call may run; consumes the grant in the same transaction.

        With a `lease` the call is the owner's alone; without one (it may run again) only the grant is checked.

        `won`: run it. `final`: a result stands. `busy`: another owner's lease is live or lapsed, see the row.
        `stopped`: the turn may not go on. `ungranted`: the grant does not fit this call any more.
        """

    async def renew(self, call: str, owner: str, lease: timedelta) -> bool: ...

    async def settle(self, call: str, owner: str, outcome: Outcome, attempt: Attempt) -> CallRow:
        """Writes the result and the audit row; a result that stands is returned, this one only audited."""

    async def settle_unknown(self, call: str, owner: str, attempt: Attempt) -> CallRow:
        """A claim whose lease lapsed becomes an honest `unknown`, by compare-and-swap on the dead owner."""

    async def audit(self, call: str, attempt: Attempt) -> None: ...


class Approvals(Protocol):
    async def request(self, wanted: NewApproval, ttl: timedelta) -> ApprovalRow | None:
        """One row for (call, digest), the one that is there if it is; None when the turn or the call went on without it."""

    async def read(self, approval: str) -> ApprovalRow | None: ...

    async def find(self, prefix: str, limit: int) -> list[ApprovalRow]:
        """By the beginning of the id, for people who type."""

    async def page(self, states: Sequence[str], turn: str | None, limit: int) -> list[ApprovalRow]:
        """Oldest first."""

    async def decide(self, approval: str, answer: Answer) -> VerdictOutcome:
        """The moment of decision: one compare-and-swap, against the database's clock.

        Every answer is audited; repeated, it is on record twice and decided once.
        """

    async def expire(self, approval: str) -> ApprovalRow | None:
        """Pending and past its time becomes expired; whoever lost that race gets the row that holds."""

    async def undelivered(self, older_than: timedelta, limit: int) -> list[str]:
        """Turns whose approvals are decided and not picked up."""


class Runs(Delegations, Protocol):
    async def read(self, run: str) -> RunRow | None: ...

    async def at_work(self, session: str) -> RunRow | None:
        """The oldest of the session's runs that has not ended."""

    async def children(self, run: str) -> list[RunRow]:
        """The runs that it delegated, oldest first."""

    async def collect(self, call: str, last: bool) -> bool:
        """Settles a waiting call with the result, if it is there; with `last`, without it. True: it is settled.

        What was collected is not delivered any more (B-05).
        """

    async def unheard(self, older_than: timedelta, limit: int) -> list[str]:
        """Turns that wait for a result which has been there for so long."""


class Actions(Protocol):
    async def reserve(self, call: str, limit: int) -> datetime | None:
        """A place among the `limit` side effects that the call's whole job may have in an hour (X-11).

        None: it has one, which counts from now, also when it had it before. Else the moment at which the next is free.
        A call that is settled as denied gives its place back in that transaction.
        """


class LiveRules(Protocol):
    async def read(self) -> LiveRulesRow | None:
        """None: there were never any."""

    async def replace(self, text: str, actor: str) -> LiveRulesRow:
        """Whole, whatever was there; the same text leaves the record as it is. Read by each call from then on (R-18)."""


class Journal(Protocol):
    async def append(self, run: str, events: Sequence[NewEvent]) -> None:
        """For facts that come with no other row; repeated, they are written again."""

    async def read(self, run: str, after: int, limit: int) -> list[RunEvent]: ...


class Blobs(Protocol):
    async def put(self, content: bytes) -> str:
        """The digest under which the content is found; the same content is stored once."""

    async def get(self, digest: str) -> bytes | None: ...


async def insist(write: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[None]]) -> T:
    """Repeats an idempotent write until the store takes it: what was paid for or done is not given up for a lock.

    `pause` waits so many seconds; the caller's own limit or cancellation ends it.
    """
    wait_s = 0.1
    while True:
        try:
            return await write()
        except Unavailable:
            await pause(wait_s)
            wait_s = min(wait_s * 2, 2.0)


@dataclass(frozen=True)
class Store:
    """The ports that one adapter implements together."""

    sessions: Sessions
    inbox: Inbox
    turns: Turns
    transcript: Transcript
    ledger: Ledger
    approvals: Approvals
    runs: Runs
    actions: Actions
    live_rules: LiveRules
    journal: Journal
    blobs: Blobs
