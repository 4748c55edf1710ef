"""A worker process with the counting tools and the fault that the environment asks for."""

import uvloop

from roundturn import settings
from tests.effects import ALL
from tests.faults import faulty
from worker.build import Additions
from worker.runtime import run_worker

if __name__ == "__main__":
    uvloop.run(run_worker(settings.load(), Additions(tools=[tool() for tool in ALL], wrap_store=faulty)))
