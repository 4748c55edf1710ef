"""A small HTTP/1.1 connection: requests in, responses out, and whether the client is still there."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

HEAD_LIMIT_BYTES = 64 * 2**10
BODY_LIMIT_BYTES = 64 * 2**20
READ_BYTES = 64 * 2**10


class ProtocolError(Exception):
    """A request that cannot be read; the connection ends after an answer with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


@dataclass(frozen=True)
class Request:
    """Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class Connection:
    """One client. Sending to a client that has left raises `ConnectionError`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()
        self.keeps_alive = True

    async def receive(self) -> Request | None:
        """The next request, None when the client has left. Raises `ProtocolError`."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                raise ProtocolError(431)
            if not await self._fill():
                return None
        head = bytes(self._buffer[:end]).decode("latin-1")
        del self._buffer[: end + 4]
        request = _read_head(head)
        closes = request.headers.get("connection", "").lower() == "close"
        self.keeps_alive = not closes and " HTTP/1.0" not in head.split("\r\n", 1)[0]
        body = await self._receive_body(request.headers)
        return (
            None
            if body is None
            else Request(request.method, request.path, request.query, request.headers, body)
        )

    async def _receive_body(self, headers: Mapping[str, str]) -> bytes | None:
        if "transfer-encoding" in headers:
            raise ProtocolError(411)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise ProtocolError(400)
        if int(length) > BODY_LIMIT_BYTES:
            raise ProtocolError(413)
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._buffer) < int(length):
            if not await self._fill():
                return None
        body = bytes(self._buffer[: int(length)])
        del self._buffer[: int(length)]
        return body

    async def gone(self) -> None:
        """Returns when the client has closed its side; what it sends before is kept for `receive`."""
        while await self._fill():
            if len(self._buffer) > BODY_LIMIT_BYTES:
                return

    async def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._writer.write(self._head(status, {**headers, "content-length": str(len(body))}) + body)
        await self._writer.drain()

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of a response that follows in pieces; `finish` or `close` ends it."""
        self._writer.write(self._head(status, {**headers, "transfer-encoding": "chunked"}))
        await self._writer.drain()

    async def send_piece(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def finish(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _fill(self) -> bool:
        try:
            data = await self._reader.read(READ_BYTES)
        except ConnectionError:
            return False
        self._buffer += data
        return bool(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {status} {_phrase(status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"connection: {'keep-alive' if self.keeps_alive else 'close'}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _read_head(head: str) -> Request:
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ProtocolError(400)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise ProtocolError(400)
        headers[name.lower()] = value.strip()
    target = urlsplit(words[1])
    return Request(words[0], target.path, dict(parse_qsl(target.query)), headers)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # 529 and others that only some endpoints use
        return "Scripted"
