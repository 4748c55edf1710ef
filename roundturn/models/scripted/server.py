"""The routes of the scripted model: chat completions as the script says, and controls for tests."""

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from roundturn.errors import ConfigurationError
from roundturn.models.scripted.answer import Answer, compose, distort
from roundturn.models.scripted.connection import Connection, ProtocolError, Request
from roundturn.models.scripted.exchange import DirectiveError, Exchange, locate
from roundturn.models.scripted.requestlog import Received, RequestLog
from roundturn.models.scripted.scenario import (
    CloseFault,
    Fault,
    RawFault,
    Scenario,
    StallFault,
    StatusFault,
    read_scenarios,
)
from roundturn.models.scripted.strict import Refusal, check_credentials, check_request, error_body

LABEL = {"x-roundturn-scripted": "1"}
JSON_TYPE = {"content-type": "application/json"}
STREAM_TYPE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
COUNTED_STEPS = 50_000  # steps whose faults are counted at once; the oldest start again
WAIT_LIMIT_S = 30.0  # of GET /scripted/stats?held=1


class Server:
    """Serves any number of clients; keeps the scenarios, the requests and how often a fault has happened."""

    def __init__(self, scenarios: Iterable[Scenario] = ()) -> None:
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._log = RequestLog()
        self._visits: OrderedDict[str, int] = OrderedDict()
        self._gate = asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        self._connections = 0

    async def listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._greet, host, port, backlog=1024)

    async def close(self) -> None:
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        client = asyncio.create_task(self._serve(Connection(reader, writer)))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, connection: Connection) -> None:
        try:
            while connection.keeps_alive and (request := await connection.receive()):
                await self._answer(request, connection)
        except ProtocolError as fault:
            with contextlib.suppress(ConnectionError):
                connection.keeps_alive = False
                await _send(connection, fault.status, error_body(str(fault), "invalid_request_error"))
        except ConnectionError:
            pass  # the client has left
        finally:
            await connection.close()

    async def _answer(self, request: Request, connection: Connection) -> None:
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                await self._chat(request, connection)
            case "GET", "/v1/models":
                await self._models(request, connection)
            case "GET", "/scripted/requests":
                await connection.send(200, JSON_TYPE | LABEL, self._log.as_json())
            case "GET", "/scripted/stats":
                await self._stats(request, connection)
            case "POST", "/scripted/scenarios":
                await self._add_scenarios(request, connection)
            case "POST", "/scripted/release":
                held = self._log.stats()["held"]
                self._gate.set()
                self._gate = asyncio.Event()
                await _send(connection, 200, {"released": held})
            case _:
                message = f"Invalid URL ({request.method} {request.path})"
                await _send(connection, 404, error_body(message, "invalid_request_error"))

    async def _models(self, request: Request, connection: Connection) -> None:
        try:
            check_credentials(request.headers.get("authorization", ""))
        except Refusal as refusal:
            await _send(connection, refusal.status, refusal.body)
        else:
            model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "roundturn-scripted"}
            await _send(connection, 200, {"object": "list", "data": [model]})

    async def _stats(self, request: Request, connection: Connection) -> None:
        """`?held=1&requests=5` waits until the counts have reached these numbers."""
        known = ("requests", "open", "held", "answered", "left")
        least = {name: text for name, text in request.query.items() if name in known and text.isdigit()}
        await self._log.wait({name: int(text) for name, text in least.items()}, WAIT_LIMIT_S)
        await _send(connection, 200, {**self._log.stats(), "connections": self._connections})

    async def _add_scenarios(self, request: Request, connection: Connection) -> None:
        try:
            added = read_scenarios(request.body, "the request")
        except ConfigurationError as fault:
            await _send(connection, 400, error_body(fault.detail, "invalid_request_error"))
        else:
            self._scenarios |= {scenario.name: scenario for scenario in added}
            await _send(connection, 200, {"scenarios": list(self._scenarios)})

    async def _chat(self, request: Request, connection: Connection) -> None:
        received = self._log.add(datetime.now(UTC).isoformat(), request.body)
        try:
            check_credentials(request.headers.get("authorization", ""))
            body = check_request(request.body)
            exchange = _located(body, self._scenarios.values())
            self._log.located(received, exchange.scenario, exchange.step)
            await self._play(exchange, body, received, connection)
        except Refusal as refusal:
            received.status = refusal.status
            await _send(connection, refusal.status, refusal.body)
            self._log.move(received, "answered")
        finally:
            if received.state in ("open", "held"):
                self._log.move(received, "left")

    async def _play(
        self, exchange: Exchange, body: dict[str, Any], received: Received, connection: Connection
    ) -> None:
        fault = self._next_fault(exchange)
        received.fault = fault.kind if fault else None
        if not await self._may_start(fault, received, connection):
            return
        if isinstance(fault, StatusFault):
            received.status = fault.status
            failure = error_body(fault.message, fault.type, code=fault.code)
            await _send(connection, fault.status, failure, fault.headers)
        elif isinstance(fault, RawFault):
            received.status = 200
            await connection.send(200, {"content-type": fault.content_type} | LABEL, fault.body.encode())
        else:
            received.status = 200
            now = int(datetime.now(UTC).timestamp())
            answer = compose(exchange, body["model"], now, len(received.body))
            await _deliver(distort(answer, fault), body, fault, connection)
        self._log.move(received, "answered")

    def _next_fault(self, exchange: Exchange) -> Fault | None:
        if not exchange.answer.faults:
            return None
        visit = self._visits.pop(exchange.key, 0)
        self._visits[exchange.key] = visit + 1
        if len(self._visits) > COUNTED_STEPS:
            self._visits.popitem(last=False)
        for fault in exchange.answer.faults:
            if visit < fault.times:
                return fault
            visit -= fault.times
        return None

    async def _may_start(self, fault: Fault | None, received: Received, connection: Connection) -> bool:
        """False when the client left while it was held or stalled."""
        if fault is None or fault.kind not in ("stall", "hold"):
            return True
        if isinstance(fault, StallFault):
            return await _outlasts(connection, asyncio.sleep(fault.seconds))
        self._log.move(received, "held")
        stays = await _outlasts(connection, self._gate.wait())
        self._log.move(received, "open" if stays else "left")
        return stays


def _located(body: Mapping[str, Any], scenarios: Iterable[Scenario]) -> Exchange:
    try:
        return locate(body["messages"], scenarios)
    except DirectiveError as fault:
        raise Refusal(f"[scripted model] {fault}", "messages") from None


async def _outlasts(connection: Connection, event: Coroutine[Any, Any, Any]) -> bool:
    """Whether the client is still there when `event` has come."""
    leaving = asyncio.create_task(connection.gone())
    coming = asyncio.create_task(event)
    try:
        await asyncio.wait({leaving, coming}, return_when=asyncio.FIRST_COMPLETED)
        return not leaving.done()
    finally:
        leaving.cancel()
        coming.cancel()
        await asyncio.gather(leaving, coming, return_exceptions=True)


async def _deliver(
    answer: Answer, body: Mapping[str, Any], fault: Fault | None, connection: Connection
) -> None:
    streamed = bool(body.get("stream"))
    headers = (STREAM_TYPE if streamed else JSON_TYPE) | LABEL
    pieces = _events(answer, body) if streamed else _halves(answer)
    if fault is not None and fault.kind == "malformed_json":
        pieces = [b'data: {"choices": [{"delta\n\n'] if streamed else [b"<html>upstream sent this</html>"]
    before = max(1, len(pieces) // 2 - 1)  # never as far as the finish
    if isinstance(fault, CloseFault):
        connection.keeps_alive = False
        before = fault.after or before
    await connection.start(200, headers)
    if not isinstance(fault, StallFault | CloseFault):
        await connection.send_piece(b"".join(pieces))
        await connection.finish()
        return
    await connection.send_piece(b"".join(pieces[:before]))
    if isinstance(fault, CloseFault):
        if fault.clean:
            await connection.finish()
        return
    if fault.kind == "stall_mid" and not await _outlasts(connection, asyncio.sleep(fault.seconds)):
        raise ConnectionResetError("the client left in the middle of the answer")
    await connection.send_piece(b"".join(pieces[before:]))
    await connection.finish()


def _events(answer: Answer, body: Mapping[str, Any]) -> list[bytes]:
    options = body.get("stream_options")
    counted = isinstance(options, dict) and bool(options.get("include_usage"))
    chunks = [b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in answer.chunks(counted)]
    return [*chunks, b"data: [DONE]\n\n"]


def _halves(answer: Answer) -> list[bytes]:
    text = json.dumps(answer.completion()).encode()
    return [text[: len(text) // 2], text[len(text) // 2 :]]


async def _send(
    connection: Connection, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    await connection.send(status, {**JSON_TYPE, **LABEL, **(headers or {})}, json.dumps(body).encode())
