"""Which addresses of the web may be asked at all: public ones, however a name or a number is spelt."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx2

from roundturn.errors import ToolFailed

Address = IPv4Address | IPv6Address
# A name and a port to its addresses; raises `OSError`.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# Why nothing may be asked at an address and a port; empty when it may.
Refusal = Callable[[Address, int], str]

MAX_URL_CHARS = 4_096
MAX_NAME_CHARS = 253  # RFC 1035
DEFAULT_PORTS = {"http": 80, "https": 443}
RESOLVER_THREADS = 4

LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})+")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a last label that makes libc read the name as an IPv4 address
# RFC 6761, 6762, 7686, 8375 and ICANN's reservation of `internal`: names that mean something of this network only.
LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa", "onion")

# IANA's IPv4 special-purpose registry, multicast, what is reserved, and a metadata service with a public number.
CLOSED_4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
    )
)  # fmt: skip
# IPv6 is a list of what is open, so that mapped, compatible, translated, unique-local and link-local numbers are out.
OPEN_6 = IPv6Network("2000::/3")
# Special purposes with Teredo, documentation twice, AS112, and 6to4, which holds any IPv4 address and is retired (RFC 7526).
CLOSED_6 = tuple(
    IPv6Network(block)
    for block in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: where there is no IPv4, every IPv4 server looks like this

# "Port blocking" of the Fetch standard: a request there would be read as another protocol's.
OTHER_PROTOCOLS = frozenset(
    {
        0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
        110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
        532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
        5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    }
)  # fmt: skip


class SystemResolver:
    """The machine's own resolver, in threads of its own: a name server that stands still holds up nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolve")

    async def __call__(self, name: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name, port)
        return list(dict.fromkeys(found))


def _look_up(name: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


def parse(text: str) -> httpx2.URL:
    """The form that is checked is the form that is asked: requests are built from what this returns, without fragment.

    Raises `ToolFailed` of kind `address_refused`.
    """
    try:
        url = httpx2.URL(text).copy_with(fragment=None)
    except httpx2.InvalidURL as fault:
        raise refused(f"this is not an address: {fault}") from None
    if len(str(url)) > MAX_URL_CHARS:
        raise refused(f"the address has more than {MAX_URL_CHARS} characters")
    if url.scheme not in DEFAULT_PORTS:
        raise refused("an address begins with http:// or https://")
    if url.userinfo:
        raise refused("an address with a user name or password is not asked")
    port = port_of(url)
    if not 0 < port < 65_536:
        raise refused(f"there is no port {port}")
    if port in OTHER_PROTOCOLS:
        raise refused(f"port {port} is another protocol's")
    host = host_of(url)
    if _literal(host) is None and (why := _bad_name(host)):
        raise refused(why)
    return url


def host_of(url: httpx2.URL) -> str:
    """As it is looked up: lower case, in IDNA's ASCII form, without the brackets of IPv6."""
    return url.raw_host.decode("ascii")


def port_of(url: httpx2.URL) -> int:
    return DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def refused(why: str) -> ToolFailed:
    return ToolFailed(f"Not asked: {why}.", "address_refused")


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _bad_name(host: str) -> str:
    if not host:
        return "the address has no host"
    if len(host) > MAX_NAME_CHARS or NAME.fullmatch(host) is None:
        return f"{host[:80]!r} is not a full name of the public web"
    if NUMBER.fullmatch(host.rpartition(".")[2]):
        return f"{host!r} is a number; an IPv4 address is written as four decimal ones"
    if any(host == name or host.endswith(f".{name}") for name in LOCAL_NAMES):
        return f"{host!r} is a name of a local network"
    return ""


def refusal(address: Address, port: int) -> str:
    """Whoever can choose an address must not reach what only this network can (SSRF)."""
    real: Address = address
    if isinstance(address, IPv6Address) and address in NAT64:
        real = IPv4Address(int(address) & 0xFFFF_FFFF)
    if isinstance(real, IPv4Address):
        closed = any(real in block for block in CLOSED_4)
    else:
        closed = real.scope_id is not None or real not in OPEN_6 or any(real in block for block in CLOSED_6)
    # What the running Python knows to be special beyond the lists above.
    return "" if real.is_global and not closed else f"{address} is not a public address"


def number_of(url: httpx2.URL, why_not: Refusal) -> Address | None:
    """The address that is written as a number, None for a name. Raises `ToolFailed` of kind `address_refused`."""
    literal = _literal(host_of(url))
    if literal is not None and (why := why_not(literal, port_of(url))):
        raise refused(why)
    return literal


async def reachable(url: httpx2.URL, resolve: Resolve, why_not: Refusal) -> list[Address]:
    """The addresses to connect to: looked up once, each of them public.

    One bad address spoils the name: which of them is taken must not depend on chance. Raises `ToolFailed` of kind
    `address_refused` or `not_found`.
    """
    if (number := number_of(url, why_not)) is not None:
        return [number]
    host, port = host_of(url), port_of(url)
    found = await _addresses(host, port, resolve)
    for address in found:
        if why := why_not(address, port):
            raise refused(f"{host} leads inside: {why}")
    return found


async def _addresses(host: str, port: int, resolve: Resolve) -> list[Address]:
    try:
        texts = await resolve(host, port)
    except (OSError, UnicodeError):
        texts = ()
    if not texts:
        raise ToolFailed(f"Nothing is known under the name {host}", "not_found")
    found = [_literal(text) for text in texts]
    if None in found:
        raise refused(f"{host} leads to something that is no address")
    return [address for address in found if address is not None]
