"""The floor: what a step costs with the least code on Temporal that commits each message once and passes references only.

Run as a process: `python -m benchmarks.floor ADDRESS DATABASE_URL MODEL_URL`. A normal activity for the model and one for
each tool call; the variant `local` runs the tools as local activities. Transcript in a SQL store of the same kind with the
same settings as ours, each message a transaction of its own; the openai client with streaming, the default sandbox.
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import json
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from typing import Any, TypeVar

    from openai import AsyncOpenAI
    from sqlalchemy import (
        Column,
        Connection,
        Integer,
        MetaData,
        String,
        Table,
        Text,
        create_engine,
        event,
        select,
    )
    from sqlalchemy.dialects import sqlite

    from benchmarks.task import KEY, MODEL, PROMPT, echo, wire_tools

    T = TypeVar("T")
QUEUE = "floor"
LIMIT = timedelta(seconds=60)

metadata = MetaData()
messages = Table(
    "messages",
    metadata,
    Column("session", String(60), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("body", Text, nullable=False),
)


@dataclass(frozen=True)
class FloorTurn:
    session: str
    local: bool


@dataclass(frozen=True)
class Place:
    """Message `n` of a session, and which of its calls."""

    session: str
    n: int
    call: int = 0


class Messages:
    """Each message is committed once; a repeated activity finds its own. One thread writes, four read."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, connect_args={"check_same_thread": False})
        event.listen(self._engine, "connect", _durable)
        self._writer, self._readers = ThreadPoolExecutor(1), ThreadPoolExecutor(4)

    async def create(self) -> None:
        await self._write(metadata.create_all)

    async def put(self, session: str, n: int, body: dict[str, Any]) -> None:
        row = sqlite.insert(messages).values(session=session, n=n, body=json.dumps(body))
        await self._write(lambda tx: tx.execute(row.on_conflict_do_nothing()))

    async def before(self, session: str, n: int) -> list[dict[str, Any]]:
        query = (
            select(messages.c.body)
            .where(messages.c.session == session, messages.c.n < n)
            .order_by(messages.c.n)
        )
        found = await self._read(lambda tx: tx.execute(query).scalars().all())
        return [json.loads(body) for body in found]

    async def get(self, session: str, n: int) -> dict[str, Any]:
        query = select(messages.c.body).where(messages.c.session == session, messages.c.n == n)
        found: dict[str, Any] = json.loads(await self._read(lambda tx: tx.execute(query).scalar_one()))
        return found

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._run, work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._run, work)

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._engine.begin() as tx:
            return work(tx)


def _durable(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


class FloorActivities:
    def __init__(self, store: Messages, model: AsyncOpenAI) -> None:
        self._store = store
        self._model = model
        self._tools: Any = wire_tools()

    @activity.defn
    async def call_model(self, at: Place) -> int:
        """The reply becomes message `n`; returns how many tool calls it asks for."""
        heard: Any = [{"role": "system", "content": PROMPT}, *await self._store.before(at.session, at.n)]
        stream = await self._model.chat.completions.create(
            model=MODEL,
            messages=heard,
            tools=self._tools,
            stream=True,
            stream_options={"include_usage": True},
        )
        text = ""
        calls: dict[int, dict[str, str]] = {}
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.id or ""
                    call["name"] += (part.function and part.function.name) or ""
                    call["arguments"] += (part.function and part.function.arguments) or ""
        reply: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            reply["tool_calls"] = [
                {
                    "id": c["id"],
                    "type": "function",
                    "function": {"name": c["name"], "arguments": c["arguments"]},
                }
                for _, c in sorted(calls.items())
            ]
        await self._store.put(at.session, at.n, reply)
        return len(calls)

    @activity.defn
    async def call_tool(self, at: Place) -> None:
        call = (await self._store.get(at.session, at.n))["tool_calls"][at.call]
        output = echo(**json.loads(call["function"]["arguments"]))
        result = {"role": "tool", "tool_call_id": call["id"], "content": output}
        await self._store.put(at.session, at.n + 1 + at.call, result)


@workflow.defn(name="Floor")
class Floor:
    @workflow.run
    async def run(self, turn: FloorTurn) -> None:
        n = 1  # the person's message is number 0
        while True:
            calls = await workflow.execute_activity_method(
                FloorActivities.call_model, Place(turn.session, n), start_to_close_timeout=LIMIT
            )
            if not calls:
                return
            await asyncio.gather(*(self._tool(turn, Place(turn.session, n, call)) for call in range(calls)))
            n += 1 + calls

    async def _tool(self, turn: FloorTurn, at: Place) -> None:
        if turn.local:
            await workflow.execute_local_activity_method(
                FloorActivities.call_tool, at, start_to_close_timeout=LIMIT
            )
        else:
            await workflow.execute_activity_method(
                FloorActivities.call_tool, at, start_to_close_timeout=LIMIT
            )


async def main(address: str, database_url: str, model_url: str) -> None:
    model = AsyncOpenAI(api_key=KEY, base_url=model_url, max_retries=0)
    owner = FloorActivities(Messages(database_url), model)
    client = await Client.connect(address)
    async with Worker(
        client, task_queue=QUEUE, workflows=[Floor], activities=[owner.call_model, owner.call_tool],
        max_concurrent_activities=200,
    ):  # fmt: skip
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
