"""One page over HTTP within bounds of time, size and place, from whoever may be at the other end."""

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

import httpx2

from roundturn import __version__
from roundturn.errors import ToolFailed
from roundturn.tools import addresses
from roundturn.tools.addresses import Address, Refusal, Resolve, host_of, port_of

MAX_BODY_BYTES = 5_000_000  # as sent, and again as unpacked
MAX_PIECES = 50_000  # of a body: each costs the event loop some time, however small it is
PAUSE_PIECES = 64  # after which others on the loop have their turn
MAX_REDIRECTS = 5
MAX_ADDRESSES = 4  # of one name, tried one after the other
CONNECT_S = 5.0
SILENCE_S = 15.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
GZIP = 16 + zlib.MAX_WBITS
HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXT = frozenset(
    {
        "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml",
        "application/javascript", "application/x-ndjson",
    }
)  # fmt: skip
MEDIA = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}")  # RFC 6838
HEADERS = {
    "User-Agent": f"roundturn/{__version__}",
    "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True)
class Page:
    """`url`: where the redirects ended. `cut`: there was more than `MAX_BODY_BYTES`. `media` is empty when it was not said."""

    url: str
    media: str
    charset: str
    body: bytes
    cut: bool

    @property
    def is_html(self) -> bool:
        return self.media in HTML or (not self.media and self.body.lstrip()[:1] == b"<")


@dataclass(frozen=True)
class Elsewhere:
    """`url` sends the reader on to `location`, on another site or where the rules are stricter."""

    url: str
    location: str


class Web:
    """Asks with GET, without cookies, credentials or proxies, and connects to the very addresses it has checked."""

    def __init__(self, resolve: Resolve, why_not: Refusal) -> None:
        self._resolve = resolve
        self._why_not = why_not

    async def get(self, address: str, may_follow: Callable[[str], bool] | None = None) -> Page | Elsewhere:
        """Raises `ToolFailed`; the caller bounds the time, and its cancellation closes the connection."""
        url = addresses.parse(address)
        for _ in range(MAX_REDIRECTS + 1):
            async with self._answer(url) as response:
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or location is None:
                    return await _page(url, response)
            target = _target(url, location)
            if not _same_site(url, target):
                addresses.number_of(target, self._why_not)  # what leads inside is not even told
                return Elsewhere(str(url), str(target))
            if may_follow is not None and not may_follow(str(target)):
                return Elsewhere(str(url), str(target))  # a call of its own, which the rules judge
            url = target
        raise ToolFailed(f"{host_of(url)} redirected more than {MAX_REDIRECTS} times", "redirects")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Reading the certificates takes a while; those that SSL_CERT_FILE names are the operator's word."""
        return httpx2.create_ssl_context()

    @asynccontextmanager
    async def _answer(self, url: httpx2.URL) -> AsyncIterator[httpx2.Response]:
        """The head of the answer; the body is still to come."""
        open_to = await addresses.reachable(url, self._resolve, self._why_not)
        try:
            # The transport alone: a client would add cookies, netrc, proxies and redirects of its own.
            async with httpx2.AsyncHTTPTransport(verify=self._tls) as transport:
                response = await _first(transport, url, open_to[:MAX_ADDRESSES])
                try:
                    yield response
                finally:
                    await response.aclose()
        except httpx2.TransportError as fault:
            raise ToolFailed(f"{host_of(url)} {_told(fault)}", "connection_failed") from fault


async def _first(
    transport: httpx2.AsyncHTTPTransport, url: httpx2.URL, open_to: list[Address]
) -> httpx2.Response:
    for address in open_to[:-1]:
        try:
            return await transport.handle_async_request(_request(url, address))
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await transport.handle_async_request(_request(url, open_to[-1]))


def _request(url: httpx2.URL, address: Address) -> httpx2.Request:
    """To the number, in the name of the name: nobody looks it up a second time (DNS rebinding)."""
    return httpx2.Request(
        "GET",
        url.copy_with(host=str(address)),
        headers={"Host": url.netloc.decode("ascii"), **HEADERS},
        extensions={
            "sni_hostname": host_of(url),
            "timeout": {"connect": CONNECT_S, "read": SILENCE_S, "write": SILENCE_S, "pool": None},
        },
    )


def _target(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        joined = str(url.join(location))
    except (httpx2.InvalidURL, ValueError):
        raise addresses.refused(f"{host_of(url)} redirects to what is no address") from None
    try:
        target = addresses.parse(joined)
    except ToolFailed as fault:
        raise ToolFailed(
            f"{host_of(url)} redirects to a refused address. {fault.detail}", fault.kind
        ) from None
    if url.scheme == "https" and target.scheme == "http":
        raise addresses.refused(f"{host_of(url)} redirects from https to http")
    return target


def _same_site(url: httpx2.URL, target: httpx2.URL) -> bool:
    """What was agreed to is this site: a redirect may add or drop `www.` and go from http to https, no more."""
    named = host_of(url).removeprefix("www.") == host_of(target).removeprefix("www.")
    upgraded = (url.scheme, url.port, target.scheme, target.port) == ("http", None, "https", None)
    return named and (upgraded or (url.scheme == target.scheme and port_of(url) == port_of(target)))


async def _page(url: httpx2.URL, response: httpx2.Response) -> Page:
    """Raises `ToolFailed` of kind `http_status`, `content_refused`, `broken_page`."""
    if not 200 <= response.status_code < 300:
        raise ToolFailed(f"{host_of(url)} answered {_status(response)}", "http_status")
    declared = response.headers.get("content-type", "")
    media = declared.partition(";")[0].strip().lower()
    media = (
        media if MEDIA.fullmatch(media) else ""
    )  # what is no type is taken as not said, and is not told on
    if not _is_text(media):
        length = response.headers.get("content-length", "")
        size = f"{length} bytes" if length.isascii() and length.isdigit() else "size unknown"
        raise ToolFailed(f"Not read: it is {media!r} ({size}), no text", "content_refused")
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", "gzip", "x-gzip"):
        raise ToolFailed(f"Not read: it is packed as {packing[:80]!r}, unasked", "content_refused")
    body, cut = await _body(response, packed=packing in ("gzip", "x-gzip"))
    return Page(str(url), media, response.charset_encoding or "", body, cut)


def _status(response: httpx2.Response) -> str:
    """In the standard's words; the server's own are not to be trusted here."""
    code = response.status_code
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _is_text(media: str) -> bool:
    return (
        not media
        or media.startswith("text/")
        or media in HTML
        or media in TEXT
        or media.endswith(("+json", "+xml"))
    )


async def _body(response: httpx2.Response, packed: bool) -> tuple[bytes, bool]:
    """What came, and whether there was more. Unpacks no more than it keeps: a bomb is cut like any long page."""
    unzip = zlib.decompressobj(GZIP) if packed else None
    body = bytearray()
    sent = pieces = 0
    async with aclosing(response.aiter_raw()) as stream:
        async for piece in stream:
            sent += len(piece)
            pieces += 1
            body += piece if unzip is None else _unpacked(unzip, piece, MAX_BODY_BYTES - len(body))
            if len(body) >= MAX_BODY_BYTES or sent >= MAX_BODY_BYTES:
                return bytes(body[:MAX_BODY_BYTES]), True
            if pieces >= MAX_PIECES:
                raise ToolFailed(f"Not read: it came in more than {MAX_PIECES} pieces", "broken_page")
            if pieces % PAUSE_PIECES == 0:
                await asyncio.sleep(0)
    if unzip is not None and sent and not unzip.eof:
        raise ToolFailed("Not read: the packed page ends in the middle", "broken_page")
    return bytes(body), False


def _unpacked(unzip: "zlib._Decompress", piece: bytes, room: int) -> bytes:
    if unzip.eof:  # what follows the page is not part of it
        return b""
    try:
        return unzip.decompress(piece, room)
    except zlib.error:
        raise ToolFailed("Not read: it is not the gzip that it is said to be", "broken_page") from None


def _told(fault: httpx2.TransportError) -> str:
    """In our words: what a server sent must not reach the model outside the marks."""
    match fault:
        case httpx2.ConnectError():
            return f"cannot be connected to: {str(fault)[:200]}"
        case httpx2.ConnectTimeout():
            return f"did not take a connection within {CONNECT_S:g} s"
        case httpx2.TimeoutException():
            return f"was silent for {SILENCE_S:g} s"
        case httpx2.ProtocolError():
            return "sent an answer that breaks HTTP or ends in the middle"
        case _:
            return "broke the connection off"
