"""`python -m tests.replay.record` plays every scene on a real server and stores the histories anew, a minute's work.

Do it when a change of the workflows is meant to be incompatible and no run that is open anywhere must survive it. A
compatible change (`workflow.patched`) keeps the old histories: that they still replay is what it must show.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from temporalio.client import WorkflowHistory

from gateway.replay import fetch
from tests.replay import stored
from tests.replay.scenes import SETTINGS, STAGES, Stage, perform
from tests.system import TemporalServer, open_system


async def record(stage: Stage, folder: Path) -> Mapping[str, WorkflowHistory]:
    (folder / "agents").mkdir(parents=True)
    for name, definition in stage.agents.items():
        (folder / "agents" / f"{name}.md").write_text(definition)
    server = TemporalServer(folder, *stage.dynamic)
    await asyncio.to_thread(server.start)
    try:
        settings = {**SETTINGS, "task_queue": "recorded", "agents_dir": folder / "agents", **stage.settings}
        async with open_system(folder / "home", server, list(stage.scenarios), **settings) as s:
            played = await perform(stage, s)
            runs = {name: await fetch(s.temporal, workflow) for name, workflow in played.items()}
    finally:
        server.kill()
    return {name: history for found in map(_named, runs, runs.values()) for name, history in found.items()}


def _named(name: str, runs: list[WorkflowHistory]) -> dict[str, WorkflowHistory]:
    """`name`, or `name.1`, `name.2`, … for the runs of one id in their order."""
    if len(runs) == 1:
        return {name: runs[0]}
    return {f"{name}.{number}": run for number, run in enumerate(runs, 1)}


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = [await record(stage, Path(folder) / stage.name) for stage in STAGES]
    for old in stored.names():
        stored.path(old).unlink()
    for histories in found:
        for name, history in histories.items():
            stored.write(name, history)
    sys.stdout.write(f"{len(stored.names())} histories in {stored.FOLDER.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
