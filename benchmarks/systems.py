"""The two systems behind one face: start a turn, wait for its end, weigh its history."""

import asyncio
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from temporalio.client import Client as Temporal

from benchmarks import floor, task
from gateway.client import Client
from roundturn import ids
from roundturn.approval import ApprovalRow


@dataclass(frozen=True)
class History:
    """`total_bytes` as the server counts them; bytes and beginning (s) of each step, from its model call to the next."""

    total_bytes: int
    step_bytes: tuple[int, ...]
    step_began: tuple[float, ...]


class System(Protocol):
    """`pid` is the worker's. A turn is named by the id of the workflow that holds its steps."""

    name: str
    pid: int

    async def turn(self, text: str) -> str:
        """From the message to the end of everything that it set going."""

    async def history(self, workflow_id: str) -> History: ...


class FloorSystem:
    def __init__(self, temporal: Temporal, store: floor.Messages, pid: int, local: bool) -> None:
        self.name = "floor, local tool" if local else "floor"
        self.pid = pid
        self._temporal = temporal
        self._store = store
        self._local = local

    async def turn(self, text: str) -> str:
        session = uuid.uuid4().hex
        await self._store.put(session, 0, {"role": "user", "content": text})
        await self._temporal.execute_workflow(
            floor.Floor.run, floor.FloorTurn(session, self._local), id=session, task_queue=floor.QUEUE
        )
        return session

    async def history(self, workflow_id: str) -> History:
        return await weigh(self._temporal, workflow_id)


class Roundturn:
    def __init__(self, client: Client, temporal: Temporal, pid: int, workdir: Path) -> None:
        self.name = "roundturn"
        self.pid = pid
        self._client = client
        self._temporal = temporal
        self._workdir = workdir

    async def turn(self, text: str) -> str:
        session = await self._client.open_session(task.AGENT, self._workdir)
        sent = await self._client.send(session.id, text)
        await self._temporal.get_workflow_handle(ids.session_workflow(session.id)).result()
        row = await self._client.find_turn(sent.accepted.turn)
        if row.state != "completed":
            raise SystemExit(f"a turn ended as {row.state}: {row.reason}")
        return ids.turn_workflow(row.id)

    async def ask(self) -> None:
        """A turn that will wait for a person."""
        session = await self._client.open_session(task.AGENT, self._workdir)
        await self._client.send(session.id, task.message("confirm", 1))

    async def waiting(self, count: int) -> list[ApprovalRow]:
        """So many approvals that wait."""
        while len(found := await self._client.approvals("pending", None, count)) < count:
            await asyncio.sleep(0.05)
        return found

    async def approve(self, asked: ApprovalRow) -> None:
        """Until its turn has ended."""
        await self._client.decide(asked.id, "approve", "bench")
        await self._temporal.get_workflow_handle(ids.turn_workflow(asked.turn)).result()

    async def history(self, workflow_id: str) -> History:
        return await weigh(self._temporal, workflow_id)


async def weigh(temporal: Temporal, workflow_id: str) -> History:
    handle = temporal.get_workflow_handle(workflow_id)
    raw: Any = (await handle.describe()).raw_description
    sizes: list[int] = []
    began: list[float] = []
    for event in (await handle.fetch_history()).events:
        if event.activity_task_scheduled_event_attributes.activity_type.name == "call_model":
            sizes.append(0)
            began.append(event.event_time.ToNanoseconds() / 1e9)
        if sizes:
            sizes[-1] += event.ByteSize()
    return History(raw.workflow_execution_info.history_size_bytes, tuple(sizes), tuple(began))
