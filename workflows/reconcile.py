"""One pass of repair, started by a Schedule: whatever a crash left between a row and its doorbell is set going again."""

from temporalio import workflow

from workflows import calls


@workflow.defn(name="Reconcile")
class Reconcile:
    @workflow.run
    async def run(self) -> None:
        await calls.reconcile()
