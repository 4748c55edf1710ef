"""The requests that the scripted model received, newest last, for tests to look at and to wait for."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

KEPT_REQUESTS = 2_000
KEPT_BYTES = 128 * 2**20  # long histories sent again and again must not fill the memory

State = Literal["open", "held", "answered", "left"]


@dataclass
class Received:
    """One request; `body` is what was sent. `left`: the client went away before its answer was complete."""

    number: int
    time: str
    body: bytes
    scenario: str | None = None
    step: int | None = None
    fault: str | None = None
    status: int | None = None
    state: State = "open"

    def as_json(self) -> str:
        known = {name: value for name, value in vars(self).items() if name != "body"}
        return f'{json.dumps(known)[:-1]}, "body": {_json_text(self.body)}}}'


class RequestLog:
    def __init__(self) -> None:
        self._kept: deque[Received] = deque()
        self._kept_bytes = 0
        self._total = 0
        self._states: Counter[str] = Counter()
        self._scenarios: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def add(self, time: str, body: bytes) -> Received:
        self._total += 1
        received = Received(self._total, time, body)
        self._kept.append(received)
        self._kept_bytes += len(body)
        while len(self._kept) > KEPT_REQUESTS or (self._kept_bytes > KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popleft().body)
        self._states["open"] += 1
        self._notify()
        return received

    def located(self, received: Received, scenario: str, step: int) -> None:
        received.scenario, received.step = scenario, step
        self._scenarios[scenario] += 1

    def move(self, received: Received, state: State) -> None:
        self._states[received.state] -= 1
        self._states[state] += 1
        received.state = state
        self._notify()

    def as_json(self) -> bytes:
        return f"[{', '.join(received.as_json() for received in self._kept)}]".encode()

    def stats(self) -> dict[str, Any]:
        states = {state: self._states[state] for state in ("open", "held", "answered", "left")}
        return {"requests": self._total, **states, "scenarios": dict(self._scenarios)}

    async def wait(self, least: Mapping[str, int], limit_s: float) -> None:
        """Returns when each named count of `stats` has reached its number, or after `limit_s`."""
        try:
            async with asyncio.timeout(limit_s):
                while any(self.stats()[name] < number for name, number in least.items()):
                    await self._changed.wait()
        except TimeoutError:
            return

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _json_text(body: bytes) -> str:
    """The body as JSON text: as it was sent, or as a JSON string when it is not JSON."""
    try:
        text = body.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(body.decode("utf-8", "replace"))
    return text
