"""Our worker for the benchmark: the settings of the environment, and the bench's tools beside the built-in ones."""

import uvloop

from benchmarks.task import TOOLS
from roundturn import settings
from worker.build import Additions
from worker.runtime import run_worker

if __name__ == "__main__":
    uvloop.run(run_worker(settings.load(), Additions(tools=[tool() for tool in TOOLS])))
