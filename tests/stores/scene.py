"""What most tests of the store begin with: a session, a running turn, calls in the ledger, an approval."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from roundturn import ids
from roundturn.approval import Answer, ApprovalRow, NewApproval
from roundturn.call import Attempt
from roundturn.event import NewEvent
from roundturn.ledger import Outcome, PlannedCall, StoredReply
from roundturn.message import AskedCall, Reply, Usage
from roundturn.store import Store
from roundturn.stores.engine import Database
from roundturn.stores.journal import append
from roundturn.tool import Effect

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LEASE = timedelta(seconds=60)
LAPSED = timedelta(seconds=-1)
DIGEST = "d" * 64


async def session(store: Store) -> str:
    return (await store.sessions.open("default", "/work")).id


async def running_turn(store: Store) -> str:
    opened = await session(store)
    await store.inbox.accept(opened, "hello")
    taken = await store.inbox.take(opened)
    assert taken is not None
    return taken.turn


def planned(effect: Effect, name: str = "tool", arguments: str = "{}", **changes: Any) -> PlannedCall:
    asked = AskedCall(provider_id="call_1", name=name, arguments=arguments)
    return replace(
        PlannedCall(asked, asked.name, asked.arguments, effect, limit_s=10, brief=False, shown=""), **changes
    )


def reply(*calls: PlannedCall, text: str = "", usage: Usage = Usage()) -> Reply:
    asked = tuple(call.asked for call in calls)
    return Reply(text=text, calls=asked, finish="calls" if calls else "stop", usage=usage, model="m")


async def step(
    store: Store, turn: str, *calls: PlannedCall, n: int = 0, at: datetime = AT, **said: Any
) -> StoredReply | None:
    return await store.transcript.store_reply(turn, n, reply(*calls, **said), calls, at)


async def one_call(store: Store, effect: Effect = Effect.ONCE) -> tuple[str, str]:
    """A running turn and its one requested call."""
    turn = await running_turn(store)
    await step(store, turn, planned(effect))
    return turn, ids.call_id(turn, 0, 0)


def question(turn: str, call: str, **changes: Any) -> NewApproval:
    asked = NewApproval(
        session=ids.session_of(turn),
        turn=turn,
        run=turn,
        workflow_id=ids.turn_workflow(turn),
        call=call,
        agent="default",
        tool="tool",
        origin="builtin",
        arguments={"path": "a"},
        digest=DIGEST,
        rule="side-effect",
        layer="default",
        reason="it changes something",
    )
    return replace(asked, **changes)


async def asked(
    store: Store,
    turn: str,
    call: str,
    ttl: timedelta = timedelta(hours=1),
    **changes: Any,
) -> ApprovalRow:
    row = await store.approvals.request(question(turn, call, **changes), ttl)
    assert row is not None
    return row


async def approve(store: Store, approval: str, **said: Any) -> str:
    """Answers; returns how the answer stood."""
    answer = replace(Answer("approve", "ann", unverified=False, via="test"), **said)
    return (await store.approvals.decide(approval, answer)).standing


def attempt(name: str, status: str = "completed", grant: str | None = None) -> Attempt:
    return Attempt(name, status, "", AT, 7, grant)


def outcome(output: str = "done", **changes: Any) -> Outcome:
    return replace(Outcome("completed", output, is_error=False), **changes)


async def journal(database: Database, run: str, events: Sequence[NewEvent]) -> None:
    """Events without the fact that makes them true."""
    await database.write(lambda tx: append(tx, run, events))


async def events(store: Store, run: str) -> list[str]:
    return [event.type for event in await store.journal.read(run, 0, 10_000)]
