"""A worker process with the counting tools, and with the fault and the tools that the environment asks for."""

import os

import uvloop

from roundturn import settings
from tests.effects import ALL, DEFERRED, page_reader
from tests.faults import faulty
from worker.build import Additions
from worker.runtime import run_worker

if __name__ == "__main__":
    classes = (*ALL, *(DEFERRED if os.environ.get("TEST_DEFERRED") else ()))
    tools = [tool() for tool in classes]
    if site := os.environ.get("TEST_SITE"):
        tools.append(page_reader(int(site)))
    uvloop.run(run_worker(settings.load(), Additions(tools=tools, wrap_store=faulty)))
