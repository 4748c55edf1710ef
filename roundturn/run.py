"""A run: one message from outside, or one delegation, and all that comes of it in its session."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from roundturn.event import RunState


@dataclass(frozen=True)
class RunRow:
    """`root`: the run at the top, itself for a message from outside. `call`: the parent's call that made it;
    `parent_run` and `title` belong to it. `discarded`: its parent was stopped, nobody waits for its result.
    """

    id: str
    session: str
    root: str
    parent_run: str | None
    parent_session: str | None
    call: str | None
    agent: str
    title: str
    discarded: bool
    state: Literal["active"] | RunState
    reason: str
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class Wakeups:
    """Whom to call after a commit: sessions to ring, turns to wake."""

    sessions: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finished:
    """`first`: it had not ended before. `inbox_empty`: of its session, as the transaction saw it.

    `wakeups` are the same when it is asked again: they may have been lost.
    """

    first: bool
    inbox_empty: bool
    wakeups: Wakeups


@dataclass(frozen=True)
class NewSubagent:
    """A delegation on its way in. `awaited`: the call that makes it waits for its result."""

    agent: str
    task: str
    title: str
    max_result_chars: int
    awaited: bool


@dataclass(frozen=True)
class Spawned:
    """`held`: it waits for a place among its siblings, nobody is to start it yet."""

    session: str
    run: str
    held: bool


@dataclass(frozen=True)
class Refusal:
    """Why a delegation may not be: error type and text for the model."""

    kind: str
    detail: str


class Delegations(Protocol):
    """What the tools of delegation need of the store; `store.py` has the rest."""

    async def spawn(self, call: str, wanted: NewSubagent) -> Spawned | Refusal:
        """A session for a subagent with its task in the inbox; for a call that did so before, that one."""

    async def wait_for(self, call: str, session: str) -> Refusal | None:
        """The call waits for the subagent's result from now on; collected by `collect`."""
