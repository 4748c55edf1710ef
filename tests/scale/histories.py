"""What a workflow leaves in Temporal, over all the runs in which it continued as new."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.system import System, until

SAME = 1.1  # the last pieces may be this much longer than the first: numbers in ids have more digits there


@dataclass(frozen=True)
class History:
    """`runs`: how many there were; `pieces`: bytes from each beginning of a piece to the next, also across runs."""

    runs: int
    total_bytes: int
    pieces: Sequence[int]

    def first_and_last(self) -> tuple[float, float]:
        """Bytes of a piece in the first and the last tenth: the median, since some hold the seam between two runs."""
        tenth = max(3, len(self.pieces) // 10)
        # The very first and the last one hold the workflow's beginning and end.
        return statistics.median(self.pieces[1 : tenth + 1]), statistics.median(self.pieces[-tenth - 1 : -1])


async def history(s: System, workflow_id: str, begins: Callable[[Any], bool], pieces: int) -> History:
    """Visibility lags behind: all runs are there once `pieces` are found."""

    async def whole() -> History | None:
        found = await _read(s, workflow_id, begins)
        return found if len(found.pieces) >= pieces else None

    found: History = await until(whole, f"{pieces} pieces of {workflow_id}")
    return found


async def _read(s: System, workflow_id: str, begins: Callable[[Any], bool]) -> History:
    runs = [run async for run in s.temporal.list_workflows(f"WorkflowId='{workflow_id}'")]
    sizes: list[int] = []
    before = 0
    for run in sorted(runs, key=lambda run: run.start_time):
        handle = s.temporal.get_workflow_handle(workflow_id, run_id=run.run_id)
        for event in (await handle.fetch_history()).events:
            if begins(event):
                sizes.append(0)
            if sizes:
                sizes[-1] += event.ByteSize()
            else:
                before += event.ByteSize()
    return History(len(runs), before + sum(sizes), sizes)


def asks_the_model(event: Any) -> bool:
    return bool(event.activity_task_scheduled_event_attributes.activity_type.name == "call_model")


def starts_a_turn(event: Any) -> bool:
    return bool(event.HasField("start_child_workflow_execution_initiated_event_attributes"))
