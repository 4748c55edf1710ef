"""Starts the scripted model: says `ready` with its address when it listens, ends quietly when told to."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from roundturn.errors import ConfigurationError
from roundturn.models.scripted.scenario import Scenario, read_scenarios
from roundturn.models.scripted.server import Server


def main() -> int:
    parser = argparse.ArgumentParser(prog="roundturn.models.scripted", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one")
    parser.add_argument("--scenario", type=Path, help="a JSON file of scenarios")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.host, options.port, _scenarios(options.scenario)))
    except ConfigurationError as fault:
        sys.stderr.write(f"{fault.lines()}\n")
        return 2
    return 0


def _scenarios(path: Path | None) -> tuple[Scenario, ...]:
    if path is None:
        return ()
    try:
        return read_scenarios(path.read_bytes(), str(path))
    except OSError as fault:
        raise ConfigurationError(f"{path}: cannot be read: {fault.strerror}") from None


async def _serve(host: str, port: int, scenarios: tuple[Scenario, ...]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = Server(scenarios)
    try:
        listener = await server.listen(host, port)
    except (OSError, OverflowError) as fault:
        raise ConfigurationError(f"cannot listen on {host} port {port}: {fault}") from None
    chosen = listener.sockets[0].getsockname()[1]
    sys.stdout.write(f"ready http://{f'[{host}]' if ':' in host else host}:{chosen}/v1\n")
    sys.stdout.flush()
    await stopped.wait()
    listener.close()
    await server.close()


if __name__ == "__main__":
    sys.exit(main())
