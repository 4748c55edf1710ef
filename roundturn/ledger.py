"""The ledger's rows: a call that was asked for, who runs it, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from roundturn.live_rules import LiveRulesRow
from roundturn.message import AskedCall, Reply
from roundturn.mode import RunMode
from roundturn.tool import Effect

CallStatus = Literal["requested", "claimed", "suspended", "awaiting", "completed", "denied"]
FINAL: frozenset[CallStatus] = frozenset({"completed", "denied"})


@dataclass(frozen=True)
class PlannedCall:
    """A call on its way into the ledger. `asked`: as the model wrote it; `tool` and `arguments`: what is judged and run.

    `shown`: one masked line for people and the journal. `refusal`: error type and text; settled so at once, it is never
    run (a cut-off reply, too many calls).
    """

    asked: AskedCall
    tool: str
    arguments: str
    effect: Effect
    limit_s: float
    brief: bool
    shown: str
    refusal: tuple[str, str] | None = None


@dataclass(frozen=True)
class CallRow:
    """One row of the ledger; `owner` and `lease_until` belong to a `once` call that is being run."""

    id: str
    session: str
    turn: str
    step: int
    index: int
    tool: str
    arguments: str
    effect: Effect
    limit_s: float
    brief: bool
    status: CallStatus
    is_error: bool
    output: str
    metadata: Mapping[str, Any]
    owner: str | None
    lease_live: bool


@dataclass(frozen=True)
class StoredReply:
    """What `call_model` needs when a step's reply stands, from this attempt or an earlier one."""

    reply: Reply
    calls: tuple[CallRow, ...]


@dataclass(frozen=True)
class Outcome:
    """A final result on its way into the ledger."""

    status: Literal["completed", "denied"]
    output: str
    is_error: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


Claim = Literal["won", "final", "busy", "stopped", "ungranted"]


@dataclass(frozen=True)
class OpenCall:
    """All that running a call needs, read at one moment; `snapshot` is the digest of the session's.

    `may_begin`: its turn runs and no stop was accepted. `live`: the rules for all sessions, if there were ever some.
    `cut_off`: an attempt that may be repeated ended before it could say whether it had run, and a person was asked then.
    """

    row: CallRow
    may_begin: bool
    run: str
    action_dir: str
    generation: int
    snapshot: str
    entries: tuple[str, ...]
    run_mode: RunMode
    live: LiveRulesRow | None
    cut_off: bool = False
