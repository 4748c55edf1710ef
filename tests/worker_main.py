"""A worker process with the counting tools, and with the fault and the deferred tools if the environment asks for them."""

import os

import uvloop

from roundturn import settings
from tests.effects import ALL, DEFERRED
from tests.faults import faulty
from worker.build import Additions
from worker.runtime import run_worker

if __name__ == "__main__":
    classes = (*ALL, *(DEFERRED if os.environ.get("TEST_DEFERRED") else ()))
    uvloop.run(run_worker(settings.load(), Additions(tools=[tool() for tool in classes], wrap_store=faulty)))
