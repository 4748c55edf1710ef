"""Starts the scripted model as a process of its own, and speaks to its controls."""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).parent.parent
LIMIT_S = 40.0  # longer than the server's own wait for a count


@dataclass(frozen=True)
class ScriptedServer:
    """`base_url` is what an OpenAI client takes, with `/v1`."""

    base_url: str
    process: subprocess.Popen[str]

    async def requests(self, scenario: str | None = None) -> list[dict[str, Any]]:
        """All that were received, newest last; of one scenario when it is named."""
        received: list[dict[str, Any]] = await self._ask("GET", "requests")
        return [one for one in received if scenario in (None, one["scenario"])]

    async def wait(self, **least: int) -> dict[str, Any]:
        """Waits until counts (`requests`, `open`, `held`, `answered`, `left`) are reached; returns all."""
        stats: dict[str, Any] = await self._ask("GET", "stats", params=least)
        assert all(stats[name] >= number for name, number in least.items()), stats
        return stats

    async def release(self) -> int:
        """Lets the held calls go on; returns how many."""
        released: int = (await self._ask("POST", "release"))["released"]
        return released

    async def add(self, scenarios: Sequence[dict[str, Any]]) -> None:
        """Adds scenarios behind those there are; one with a known name takes its place."""
        await self._ask("POST", "scenarios", json={"scenarios": list(scenarios)})

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        address = self.base_url.removesuffix("/v1") + f"/scripted/{path}"
        async with httpx2.AsyncClient(timeout=LIMIT_S) as client:
            response = await client.request(method, address, **options)
        assert response.status_code == 200, response.text
        return response.json()


def start_scripted_server(scenarios: Sequence[dict[str, Any]] = ()) -> ScriptedServer:
    """Blocks until the server says that it is ready; end it with `stop_scripted_server`."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "scenarios.json"
        script.write_text(json.dumps({"scenarios": list(scenarios)}))
        command = [
            sys.executable,
            "-m",
            "roundturn.models.scripted",
            "--port",
            "0",
            "--scenario",
            str(script),
        ]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
    if not line.startswith("ready "):
        stop_scripted_server(process)
        raise AssertionError(f"the scripted model did not start: {line!r}")
    return ScriptedServer(line.removeprefix("ready ").strip(), process)


def stop_scripted_server(process: subprocess.Popen[str]) -> int:
    """Ends this one process; its exit code."""
    process.terminate()
    try:
        return process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        if process.stdout is not None:
            process.stdout.close()


@asynccontextmanager
async def scripted_server(scenarios: Sequence[dict[str, Any]] = ()) -> AsyncIterator[ScriptedServer]:
    server = await asyncio.to_thread(start_scripted_server, scenarios)
    try:
        yield server
    finally:
        await asyncio.to_thread(stop_scripted_server, server.process)
