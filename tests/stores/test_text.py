"""No column ever holds what the other store, UTF-8 or strict JSON has no place for, wherever it came from."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import String, Text, select
from sqlalchemy.exc import IntegrityError

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.store import Store
from roundturn.stores.engine import Database
from roundturn.stores.tables import CleanText, Json, Label, metadata, snapshots
from roundturn.tool import Effect
from tests import rows
from tests.requirements import requirement
from tests.stores import scene

BAD = "a\x00b\ud800c\udfffd"
CLEAN = "a\ufffdb\ufffdc\ufffdd"
ODD: dict[str, Any] = {
    BAD: BAD,
    "nan": float("nan"),
    "inf": [float("inf")],
    "time": datetime(2026, 1, 1, tzinfo=UTC),
    "bytes": b"\x00\xff",
    "set": {1},
    "object": ValueError(BAD),
    "huge": 10**5_000,
    1: "number as key",
}


@pytest.fixture
async def filled(store: Store, database: Database) -> str:
    """Bad text through every port that takes text from a model, a tool, a person or a file."""
    session = (await store.sessions.open(BAD, BAD)).id
    await store.sessions.freeze(session, BAD)
    await store.inbox.accept(session, BAD)
    taken = await store.inbox.take(session)
    assert taken is not None
    turn = taken.turn
    call = scene.planned(Effect.KEYED, BAD, BAD, shown=BAD)
    answered = scene.planned(Effect.KEYED, "t", "{}", refusal=(BAD, BAD))
    await store.transcript.store_reply(
        turn,
        0,
        scene.reply(call, answered, text=BAD).model_copy(update={"model": BAD * 100}),
        [call, answered],
        scene.AT,
    )
    first = ids.call_id(turn, 0, 0)
    row = await scene.asked(
        store,
        turn,
        first,
        arguments={"a": BAD, "b": ODD},
        tool=BAD,
        origin=BAD * 100,
        rule=BAD,
        layer=BAD * 10,
        reason=BAD,
    )
    await scene.approve(store, row.id, actor=BAD, note=BAD, via=BAD * 10)
    await scene.approve(store, row.id, actor=BAD, note=BAD)
    odd = scene.attempt("attempt")
    await store.ledger.settle(
        first,
        "o",
        scene.outcome(BAD, metadata={**ODD, "error_type": BAD}),
        type(odd)("x", "completed", BAD * 100, scene.AT, 1, None),
    )
    await scene.journal(database, turn, [NewEvent("step.started", ODD)])
    await store.turns.request_stop(turn, BAD * 100)
    await store.turns.finish(turn, "failed", BAD, 1)
    return turn


async def raw_rows(database: Database, table: str) -> list[Any]:
    query = f'SELECT * FROM "{table}"'
    return await database.read(lambda tx: list(tx.exec_driver_sql(query).mappings()))


@requirement("P19", "P31")
async def test_every_text_of_every_row_is_clean_and_every_json_strict(
    filled: str, database: Database
) -> None:
    seen = 0
    for table in metadata.tables.values():
        for row in await raw_rows(database, table.name):
            for column in table.columns:
                value = row[column.name]
                if not isinstance(value, str):
                    continue
                seen += "\ufffd" in value
                assert "\x00" not in value, (table.name, column.name)
                value.encode()
                if isinstance(column.type, Json):
                    json.loads(value, parse_constant=pytest.fail)
                    assert "\\u0000" not in value, (table.name, column.name)
                    assert "\\ud800" not in value, (table.name, column.name)
    assert seen > 20, "the bad text did reach the columns"


@requirement("P19")
async def test_no_text_is_longer_than_its_column(filled: str, database: Database) -> None:
    """PostgreSQL refuses what SQLite lets pass."""
    for table in metadata.tables.values():
        for row in await database.read(lambda tx, table=table: tx.execute(select(table)).all()):
            for column in table.columns:
                length = getattr(column.type, "length", None)
                value = row._mapping[column.name]
                if length is not None and isinstance(value, str):
                    assert len(value) <= length, (table.name, column.name)


@requirement("P19")
async def test_what_is_read_back_is_the_clean_text(filled: str, store: Store, database: Database) -> None:
    session = ids.session_of(filled)
    heard = await rows.transcript(database, session)
    assert [entry.text for entry in heard.entries] == [CLEAN, CLEAN]
    assert heard.entries[1].calls[0].arguments == CLEAN
    assert heard.results[f"{filled}.0.0"] == CLEAN
    turn = await store.turns.read(filled)
    assert turn is not None
    assert turn.reason == CLEAN
    digest = await store.sessions.snapshot(session)
    assert digest is not None
    assert await store.sessions.snapshot_body(digest) == CLEAN


@requirement("P31")
async def test_a_record_keeps_odd_values_as_their_text(filled: str, store: Store) -> None:
    row = await store.ledger.read(f"{filled}.0.0")
    assert row is not None
    assert row.metadata["nan"] == "nan"
    assert row.metadata["time"] == "2026-01-01 00:00:00+00:00"
    assert row.metadata["set"] == "{1}"
    assert row.metadata["object"] == CLEAN
    assert row.metadata[CLEAN] == CLEAN
    assert row.metadata["1"] == "number as key"
    assert row.metadata["huge"] == "(int)"


@requirement("P19")
async def test_one_bad_event_does_not_lose_the_others_of_its_transaction(
    store: Store, database: Database
) -> None:
    await scene.journal(database, "r", [NewEvent("turn.started", {"x": BAD}), NewEvent("turn.ended")])
    assert [event.type for event in await store.journal.read("r", 0, 9)] == ["turn.started", "turn.ended"]


async def test_text_of_five_megabytes_goes_in_and_out(store: Store, database: Database) -> None:
    big = "ü😀" * 850_000
    session = await scene.session(store)
    await store.inbox.accept(session, big)
    taken = await store.inbox.take(session)
    assert taken is not None
    call = scene.planned(Effect.PURE, "t", json.dumps({"a": big}))
    await scene.step(store, taken.turn, call, text=big)
    await store.ledger.settle(f"{taken.turn}.0.0", "o", scene.outcome(big), scene.attempt("o"))
    heard = await asyncio.wait_for(rows.transcript(database, session), 20)
    assert heard.entries[0].text == heard.entries[1].text == big
    assert heard.results[f"{taken.turn}.0.0"] == big
    events = await store.journal.read(taken.turn, 0, 99)
    assert all(len(str(event.data)) < 10_000 for event in events), "the journal holds no bodies"


def test_columns_for_text_from_outside_are_of_a_cleaning_type() -> None:
    """A plain Text column would let it through; a plain String is for our own ids and words."""
    ours = {
        "id", "digest", "client_key", "session", "turn", "key", "state", "run", "role", "finish", "effect",
        "status", "owner", "call", "grant", "workflow_id", "approval", "verdict", "standing", "type", "snapshot",
        "root", "parent", "parent_run", "parent_session", "awaited_by", "collected_by", "delivery", "kind", "run_mode",
    }  # fmt: skip
    for table in metadata.tables.values():
        for column in table.columns:
            assert not isinstance(column.type, Text), f"{table.name}.{column.name}"
            if isinstance(column.type, String):
                assert column.name in ours, f"{table.name}.{column.name}"
            elif isinstance(column.type, CleanText | Label):
                assert column.name not in ours, f"{table.name}.{column.name}"


async def test_a_far_expiry_can_be_stored(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call, timedelta(days=3_660))
    assert row.expires_at.year >= 2035


@requirement("X-07")
async def test_an_error_of_the_database_does_not_tell_what_was_to_be_written(database: Database) -> None:
    twice = snapshots.insert().values(digest="d", body="the content")
    with pytest.raises(IntegrityError) as raised:
        await database.write(lambda tx: [tx.execute(twice) for _ in range(2)])
    assert "INSERT INTO snapshots" in str(raised.value)
    assert "the content" not in str(raised.value)
