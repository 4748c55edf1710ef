"""A question to a person that Ctrl-C can still interrupt: no thread sits in a read."""

import asyncio
import os
import sys

from gateway.cli.screen import Screen

LINE_BYTES = 4096  # a terminal gives a line at a time and none is longer


async def ask(screen: Screen, question: str) -> str:
    """The line that was typed; empty at the end of input."""
    screen.prompt(question)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, LINE_BYTES))

    loop.add_reader(descriptor, read)
    try:
        return (await typed).decode(errors="replace")
    finally:
        loop.remove_reader(descriptor)
