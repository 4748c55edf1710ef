"""`python -m tests.scale.memory`: what one worker weighs alone, and with 100, 500 and 1,000 sessions that wait for people."""

import asyncio
import tempfile
from pathlib import Path

from tests.scale.pending import ASKS, SCENARIOS, weigh_while_they_wait
from tests.system import TemporalServer, open_system

MARKS = (100, 500, 1000)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = TemporalServer(Path(folder))
        server.start()
        try:
            async with open_system(Path(folder) / "home", server, list(SCENARIOS), **ASKS) as s:
                await weigh_while_they_wait(s, await s.start_worker(), MARKS)
        finally:
            server.kill()


if __name__ == "__main__":
    asyncio.run(main())
