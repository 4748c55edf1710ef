"""The doorbell over Temporal: signal-with-start for a session, a bare signal for a turn; both carry nothing."""

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from roundturn import ids
from roundturn.doorbell import Standing
from roundturn.errors import Unavailable
from roundturn.settings import Settings
from workflows.session import Session
from workflows.turn import Turn
from workflows.wire import task_timeout


class TemporalDoorbell:
    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings

    async def ring(self, session: str) -> None:
        try:
            await self._client.start_workflow(
                Session.run,
                session,
                id=ids.session_workflow(session),
                task_queue=self._settings.task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                start_signal="doorbell",
                task_timeout=task_timeout(self._settings),
            )
        except RPCError as fault:
            raise _away(fault) from fault

    async def wake(self, turn: str) -> None:
        try:
            await self._client.get_workflow_handle(ids.turn_workflow(turn)).signal(Turn.wake)
        except RPCError as fault:
            if fault.status is not RPCStatusCode.NOT_FOUND:  # not started yet or ended: its rows tell it all
                raise _away(fault) from fault

    async def standing(self, turn: str) -> Standing:
        try:
            found = await self._client.get_workflow_handle(ids.turn_workflow(turn)).describe()
        except RPCError as fault:
            if fault.status is RPCStatusCode.NOT_FOUND:
                return "absent"
            raise _away(fault) from fault
        return "running" if found.status is WorkflowExecutionStatus.RUNNING else "closed"


def _away(fault: RPCError) -> Unavailable:
    return Unavailable(
        f"Temporal does not answer: {fault.message}"[:300], "is the server up? see: roundturn dev"
    )
