"""A web server on loopback that says, byte by byte, what a test wants said."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from roundturn.tools import addresses
from roundturn.tools.addresses import Address
from roundturn.tools.web import WebFetch

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
HOME = "127.0.0.1"


def said(body: bytes, *headers: str, status: str = "200 OK", media: str = "text/plain") -> Answer:
    """An honest answer, unless `headers` make it another."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    if media:
        lines.append(f"Content-Type: {media}")
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def raw(text: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


def redirect(location: str, *headers: str) -> Answer:
    return said(b"", f"Location: {location}", *headers, status="302 Found")


def endless(head: bytes, piece: bytes, pause_s: float = 0.0) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return answer


class Site:
    """`answers` by path. `requests`: their heads. `left`: a client has gone away."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, Answer] = {}
        self.requests: list[str] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/", host: str = "site.example") -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [_path(head) for head in self.requests]

    def visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(task := asyncio.ensure_future(self._serve(reader, writer)))
        task.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            self.asked.set()
            leaving = asyncio.create_task(self._leaves(reader))
            answering = asyncio.create_task(self._answer(_path(head), writer))
            try:
                await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                answering.cancel()

    async def _leaves(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()
        self.left.set()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await self.answers[path](writer)


def _path(head: str) -> str:
    return head.split(" ", 2)[1]


@asynccontextmanager
async def opened(tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.visited, HOME, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.close()


class Names:
    """A resolver that gives each name its answers one after the other, the last one again and again."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked.append(name)
        given = self._answers.get(name, [[HOME]])
        return given.pop(0) if len(given) > 1 else given[0]


def reader_of(*sites: Site, names: Names | None = None) -> WebFetch:
    """Of these sites, as if they were public, and of no other address of the inside."""
    ports = [site.port for site in sites]

    def why_not(address: Address, port: int) -> str:
        return "" if str(address) == HOME and port in ports else addresses.refusal(address, port)

    return WebFetch(names or Names(), why_not)
