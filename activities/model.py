"""One model call: transcript in, reply stored, only its shape returned; a stored reply is never asked for again."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple

import structlog
from pydantic import BaseModel
from temporalio import activity

from activities.failures import translating
from activities.heartbeat import beating
from activities.snapshots import Snapshots
from activities.transcripts import Transcripts
from roundturn import ids
from roundturn.errors import ModelRefused, ModelUnavailable
from roundturn.event import NewEvent
from roundturn.jsontext import NotJson, cut, parse_object, whole_words
from roundturn.ledger import FINAL, CallRow, PlannedCall, StoredReply
from roundturn.message import AskedCall, Reply
from roundturn.model import ModelPort, ModelRequest
from roundturn.registry import ToolRegistry
from roundturn.store import Store, insist
from roundturn.tool import Effect

SHOWN_BYTES = 160
MASKED_CHARACTERS = 4_000  # of all values of one call
VALUE_COSTS = 100  # characters, beside its own
LONGEST_WAIT_S = (
    3 * 3600.0
)  # beyond this the turn ends and says until when; a header must not park it for a century
LONG_WAIT_S = 60.0  # a wait beyond this is the workflow's timer, where a stop can end it (P13)
REASON_BYTES = 300

MOST_CALLS = 128  # of one reply: a step's plan stays far below the payload ceiling of 64 KiB

TRUNCATED = (
    "truncated",
    "Not run: your reply was cut off at the output limit, so this call may be incomplete. "
    "Send it again, shorter or in several calls.",
)
TOO_MANY = (
    "too_many_calls",
    f"Not run: one reply may hold {MOST_CALLS} calls. Send the rest again in a later reply.",
)


class ModelStep(BaseModel, frozen=True):
    turn: str
    step: int


class CallPlan(NamedTuple):
    """What the workflow needs to schedule a call; the rest is in the ledger. A list in history, to keep that short."""

    id: str
    tool: str
    effect: Effect
    limit_s: float
    brief: bool


class ModelOutcome(BaseModel, frozen=True):
    """`calls`: run these. `final`: the answer stands. `cut`, `filtered`: it ended short. `refused`: the endpoint
    will not answer. `limited`: ask again after `wait_s`. `fenced`: the turn may not go on, look why.
    """

    kind: Literal["calls", "final", "cut", "filtered", "refused", "limited", "fenced"]
    calls: tuple[CallPlan, ...] = ()
    reason: str = ""
    wait_s: float = 0


class ModelActivities:
    """`mask` makes the copy of arguments that people and the journal see; `clock` gives aware UTC times."""

    def __init__(
        self,
        store: Store,
        model: ModelPort,
        registry: ToolRegistry,
        snapshots: Snapshots,
        mask: Callable[[Any], Any],
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._model = model
        self._registry = registry
        self._mask = mask
        self._clock = clock
        self._snapshots = snapshots
        self._transcripts = Transcripts()

    @activity.defn
    @translating
    async def call_model(self, at: ModelStep) -> ModelOutcome:
        """Raises `ApplicationError` for what may pass; everything else is an outcome."""
        with structlog.contextvars.bound_contextvars(
            session=ids.session_of(at.turn), turn=at.turn, step=at.step
        ):
            try:
                async with beating():
                    return await self._call(at)
            except ModelRefused as fault:
                return ModelOutcome(kind="refused", reason=cut(f"{fault.kind}: {fault.detail}", REASON_BYTES))

    async def _call(self, at: ModelStep) -> ModelOutcome:
        known = self._transcripts.known(ids.session_of(at.turn))
        opened = await self._store.transcript.open_step(at.turn, at.step, known.generation, known.seq)
        if opened is None:
            return ModelOutcome(kind="fenced")
        if opened.stored is not None:
            return _outcome(opened.stored)
        if not opened.may_begin:
            return ModelOutcome(kind="fenced")
        snapshot = await self._snapshots.get(opened.snapshot)
        request = ModelRequest(
            model=snapshot.model,
            messages=self._transcripts.heard(opened, known, snapshot.agent.prompt),
            tools=snapshot.face(opened.run_mode),
        )
        started = self._clock()
        try:
            reply = await self._model.complete(request)
        except ModelUnavailable as fault:
            if (limited := await self._limited(at, opened.run, fault)) is not None:
                return limited
            raise
        planned = []
        for index, call in enumerate(reply.calls):
            planned.append(self._plan(index, call, reply))
            await asyncio.sleep(0)
        # Paid for: it is written however long the store is locked, not asked for again.
        write = partial(self._store.transcript.store_reply, at.turn, at.step, reply, planned, started)
        kept = await insist(write, asyncio.sleep)
        structlog.get_logger().info(
            "model.replied", finish=reply.finish, calls=len(planned), stored=kept is not None
        )
        return ModelOutcome(kind="fenced") if kept is None else _outcome(kept)

    async def _limited(self, at: ModelStep, run: str, fault: ModelUnavailable) -> ModelOutcome | None:
        """A long wait is the workflow's, a century's is a refusal; a short one is the next attempt's delay (None)."""
        wait_s = fault.retry_after.total_seconds() if fault.retry_after else 0
        if wait_s > LONGEST_WAIT_S:
            asked = f"the endpoint asked to wait {wait_s:.0f} s, longer than {LONGEST_WAIT_S:.0f} s: {fault.detail}"
            return ModelOutcome(kind="refused", reason=cut(f"limited: {asked}", REASON_BYTES))
        if wait_s <= LONG_WAIT_S:
            return None
        until = self._clock() + timedelta(seconds=wait_s)
        limited = NewEvent("model.limited", {"turn": at.turn, "until": until.isoformat(timespec="seconds")})
        await self._store.journal.append(run, [limited])
        return ModelOutcome(kind="limited", wait_s=wait_s, reason=cut(fault.detail, REASON_BYTES))

    def _plan(self, index: int, asked: AskedCall, reply: Reply) -> PlannedCall:
        """An unknown tool is answered by the chain; it does nothing, so that the answer may come at once."""
        meant = self._registry.meant(asked)
        spec = self._registry.spec(meant.name)
        return PlannedCall(
            asked=asked,
            # A name that the model invented goes into events and Temporal's history.
            tool=meant.name if spec else self._mask(meant.name),
            arguments=meant.arguments,
            effect=spec.effect if spec else Effect.PURE,
            limit_s=spec.limit_s if spec else 1.0,
            brief=spec.brief if spec else True,
            shown=self._shown(meant.arguments),
            refusal=TRUNCATED if reply.finish == "length" else TOO_MANY if index >= MOST_CALLS else None,
        )

    def _shown(self, text: str) -> str:
        try:
            arguments = parse_object(text)
        except NotJson:
            return "(unreadable arguments)"
        # Masking costs by the character: only what can be shown is masked, with room for a secret that begins there.
        short: dict[str, str | int | float] = {}
        room = MASKED_CHARACTERS
        for key, value in arguments.items():
            if not isinstance(value, str | int | float) or room <= 0:
                continue
            text = str(value)
            short[key] = whole_words(text[:room]) if len(text) > room else value
            room -= VALUE_COSTS + len(key) + len(text)
        plain = self._mask(short).values()
        values = [value for value in plain if isinstance(value, str)] or [str(value) for value in plain]
        return cut(" ".join(" ".join(values).split()), SHOWN_BYTES)


def _outcome(stored: StoredReply) -> ModelOutcome:
    reply = stored.reply
    if reply.calls:
        return ModelOutcome(
            kind="calls", calls=tuple(_call_plan(row) for row in stored.calls if row.status not in FINAL)
        )
    if reply.finish == "length":
        return ModelOutcome(kind="cut", reason="the answer was cut off at the model's output limit")
    if reply.finish == "filtered" or not reply.text.strip():
        return ModelOutcome(kind="filtered", reason="the model withheld its answer or sent an empty one")
    return ModelOutcome(kind="final")


def _call_plan(row: CallRow) -> CallPlan:
    name = ids.printable(row.tool)
    return CallPlan(id=row.id, tool=name, effect=row.effect, limit_s=row.limit_s, brief=row.brief)
