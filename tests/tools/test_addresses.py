"""Nothing of the inside is asked, however it is spelt: a table of attacks, and a listener that must hear none of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from roundturn.errors import ToolFailed
from roundturn.tool import ToolContext
from roundturn.tools import addresses
from roundturn.tools.web import WebFetch, WebFetchInput
from tests.requirements import requirement

PUBLIC = "93.184.216.34"
# What the names of the table lead to; numbers in other spellings go to the machine's own reading of them.
NAMES = {
    "site.example": [PUBLIC],
    "inner.example": ["127.0.0.1"],
    "ten.example": ["10.0.0.1"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "last.example": [PUBLIC, "2606:4700::1111", "::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "scoped.example": ["fe80::1%lo"],
    "odd.example": ["no address"],
    "metadata.example": ["169.254.169.254"],
    "localhost": ["127.0.0.1"],
    "intranet": ["127.0.0.1"],
    "printer.local": ["127.0.0.1"],
    "metadata.google.internal": ["127.0.0.1"],
    "router.home.arpa": ["127.0.0.1"],
    "hidden.onion": ["127.0.0.1"],
}

ATTACKS = [
    # this machine
    "http://127.0.0.1:{port}/",
    "http://127.0.0.2:{port}/",
    "http://127.255.255.254:{port}/",
    "https://127.0.0.1:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0.1.2.3:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    # its names
    "http://localhost:{port}/",
    "http://LocalHost:{port}/",
    "http://localhost.:{port}/",
    "http://a.localhost:{port}/",
    "http://localhost.localdomain:{port}/",
    "http://intranet:{port}/",
    "http://printer.local:{port}/",
    "http://metadata.google.internal:{port}/",
    "http://router.home.arpa:{port}/",
    "http://hidden.onion:{port}/",
    "http://site.example.:{port}/",
    # other spellings of 127.0.0.1
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0X7F.1:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.0.0.01:{port}/",
    "http://00000127.0.0.1:{port}/",
    "http://0:{port}/",
    "http://127\u30020\u30020\u30021:{port}/",
    "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "http://\u2460\u2461\u2466.0.0.1:{port}/",
    "http://\u24dbocalhost:{port}/",
    "http://lo\u00adcalhost:{port}/",
    "http://%6cocalhost:{port}/",
    "http://127.0.0.%31:{port}/",
    "http://127%2e0%2e0%2e1:{port}/",
    # IPv4 within IPv6
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[64:ff9b::10.0.0.1]:{port}/",
    "http://[64:ff9b::169.254.169.254]:{port}/",
    "http://[64:ff9b:1::7f00:1]:{port}/",
    "http://[2002:7f00:1::1]:{port}/",
    "http://[2001:0:7f00:1::1]:{port}/",
    # other networks of the inside
    "http://10.0.0.1:{port}/",
    "http://172.16.0.1:{port}/",
    "http://172.31.255.255:{port}/",
    "http://192.168.1.1:{port}/",
    "http://100.64.0.1:{port}/",
    "http://100.127.255.255:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine/",
    "http://192.0.0.192/opc/v2/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[2606:4700::1111%25lo]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    # for nobody
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[100::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    # names that lead there
    "http://inner.example:{port}/",
    "http://ten.example:{port}/",
    "http://mixed.example:{port}/",
    "http://last.example:{port}/",
    "http://mapped.example:{port}/",
    "http://scoped.example:{port}/",
    "http://metadata.example/latest/meta-data/",
    "http://odd.example:{port}/",
    # two readers, two meanings
    "http://user@127.0.0.1:{port}/",
    "http://user:password@site.example/",
    "http://site.example@127.0.0.1:{port}/",
    "http://site.example:80@127.0.0.1:{port}/",
    "http://site.example\\@127.0.0.1:{port}/",
    "http://site.example%2f@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@site.example/",
    "http://127.0.0.1:{port}#@site.example/",
    "http://127.0.0.1:{port}?@site.example/",
    "http://[::1]site.example:{port}/",
    "http://site.example:{port}:80/",
    "http://127.0.0.1 .site.example:{port}/",
    "http://[127.0.0.1]:{port}/",
    "http:127.0.0.1:{port}/",
    "http:/127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}/",
    " http://127.0.0.1:{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://site.example/\r\nHost: 127.0.0.1",
    "http://127.0.0.1\x00.site.example:{port}/",
    # other schemes
    "file:///etc/passwd",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/_x",
    "dict://127.0.0.1:{port}/",
    "ws://127.0.0.1:{port}/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "view-source:http://127.0.0.1:{port}/",
    # other protocols' ports, and none at all
    "http://site.example:22/",
    "http://site.example:25/",
    "http://site.example:6667/",
    "http://site.example:0/",
    "http://site.example:-1/",
    "http://site.example:65536/",
    "http://site.example:99999999999/",
    "http://site.example:http/",
    # no names
    "http://",
    "http://.",
    "http://-site.example/",
    "http://site..example/",
    "http://.site.example/",
    "http://si*te.example/",
    f"http://{'a' * 64}.example/",
    f"http://{'a.' * 130}example/",
    f"http://site.example/{'a' * 5000}",
    "http://site.example/" + "\u00e4" * 1000,
]


async def resolve(name: str, port: int) -> Sequence[str]:
    if name in NAMES:
        return NAMES[name]
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(entry[4][0]) for entry in found]


class Canary:
    """Listens where the attacks lead, and counts who came."""

    def __init__(self) -> None:
        self.port = 0
        self.visits = 0

    def visited(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.close()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    bird = Canary()
    server = await asyncio.start_server(bird.visited, "0.0.0.0")
    bird.port = server.sockets[0].getsockname()[1]
    async with server:
        yield bird


async def fetch(tool: WebFetch, url: str) -> str:
    context = ToolContext(Path("/"), "call")
    return (await tool.execute(WebFetchInput.model_construct(url=url, offset=0), context)).output


@requirement("X-03")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda url: ascii(url)[:60])
async def test_an_address_of_the_inside_is_refused_before_anybody_is_asked(
    canary: Canary, attack: str
) -> None:
    with pytest.raises(ToolFailed) as refusal:
        await fetch(WebFetch(resolve), attack.format(port=canary.port))
    assert refusal.value.kind == "address_refused"
    assert canary.visits == 0


@pytest.mark.parametrize("url", ["http://127.0.0.2:{port}/", "http://inner.example:{port}/"])
async def test_without_the_check_the_listener_would_have_been_reached(canary: Canary, url: str) -> None:
    with pytest.raises(ToolFailed) as fault:
        await fetch(WebFetch(resolve, lambda address, port: ""), url.format(port=canary.port))
    assert fault.value.kind == "connection_failed"
    assert canary.visits == 1


@pytest.mark.parametrize(
    "address",
    [
        PUBLIC, "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "169.253.0.1", "192.167.0.1",
        "2606:4700::1111", "2a00:1450:4001::200e", "64:ff9b::5db8:d822",
    ],
)  # fmt: skip
def test_a_public_address_may_be_asked(address: str) -> None:
    assert addresses.refusal(ip_address(address), 443) == ""


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("HTTP://Site.Example", "http://site.example"),
        ("https://site.example:443/a?b=c#part", "https://site.example/a?b=c"),
        ("http://b\u00fccher.example/\u00e4?q=\u00f6", "http://xn--bcher-kva.example/%C3%A4?q=%C3%B6"),
        ("http://site.example:8080/a/../b", "http://site.example:8080/b"),
        ("http://site.example#@127.0.0.1/", "http://site.example"),
        ("http://site.example/%0d%0aHost:x", "http://site.example/%0d%0aHost:x"),
    ],
)
def test_an_address_is_asked_in_one_plain_form(written: str, asked: str) -> None:
    assert str(addresses.parse(written)) == asked


async def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(ToolFailed) as fault:
        await fetch(WebFetch(resolve), "http://nobody.example/")
    assert fault.value.kind == "not_found"


async def test_the_machine_s_own_resolver_knows_this_machine() -> None:
    assert "127.0.0.1" in await addresses.SystemResolver()("localhost", 80)
