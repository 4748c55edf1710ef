"""No secret reaches a log line or a screen, and what only counts or reads like one stays readable."""

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.shapes import WORK
from roundturn.telemetry import HIDDEN, LONGEST_LOGGED, MASK, Masking
from tests.requirements import requirement

CANARY = "canary-0123456789"
masking = Masking((CANARY, CANARY + "-longer"))


@requirement("P131")
@pytest.mark.parametrize(
    "text",
    [
        f"key {CANARY}!",
        f"{CANARY}-longer",
        "Authorization: Bearer canary.abc.def",
        "Authorization: Basic Y2FuYXJ5OnBhc3M=",
        '{"authorization": "Basic Y2FuYXJ5OnBhc3M="}',
        "authorization=canaryvalue",
        "https://user:canary@host/path",
        "postgresql+asyncpg://user:c%40nary-canary@host/db",
        "redis://:canary@host",
        "GET /x?api_key=canary123&y=1",
        "GET /x?y=1&access_token=canary123",
        '{"password": "canary!"}',
        "OPENAI_API_KEY=canary123 python run.py",
        "client_secret='canary123'",
        "sk-canary123456",
        "ghp_canary0123456789canary",
        "github_pat_canary0123456789canary",
        "xoxb-canary-123456",
        "ValueError: bad password: canary123",
    ],
)
def test_a_secret_in_a_text_is_masked(text: str) -> None:
    shown = masking.text(text)
    assert "canary" not in shown
    assert "Y2FuYXJ5" not in shown
    assert MASK in shown
    assert "longer" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "basic understanding of tokens",
        "input_tokens=123456 output_tokens: 999999",
        "max_tokens=1000000",
        "the password: it is",
        "token=get_token()",
        "task-management and disk-sk-1",
        "https://host:8080/path@x",
        "mail ann@example.org",
        "secret=$(rm -rf /); echo",
        "token=`rm -rf /`",
    ],
)
def test_what_only_looks_like_a_secret_stays_readable(text: str) -> None:
    assert masking.text(text) == text


@requirement("P131")
@pytest.mark.parametrize(
    "name",
    [
        "api_key", "API-KEY", "apiKey", "x-api-key", "Authorization", "Proxy-Authorization", "token", "access_token",
        "refresh_token", "GITHUB_TOKEN", "tokens", "secret", "client_secret", "password", "PGPASSWORD", "passwd",
        "passphrase", "cookie", "Set-Cookie", "credentials", "private_key", "aws_secret_access_key", "access_key",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value", ["canary", ["canary"], {"user": "canary"}, b"canary", {"deep": [{"a": "canary"}]}]
)
def test_a_value_is_masked_by_its_name(name: str, value: Any) -> None:
    assert "canary" not in str(masking.value({"outer": [{name: value}]}))


@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": 12}, {"output_tokens": 0}, {"cached_tokens": None}, {"max_tokens": 1.5}, {"tokens": 3},
        {"token_count": 7}, {"usage": {"total_tokens": 9}}, {"password": ""}, {"api_key": None}, {"secret": False},
        {"name": "ann", "count": 3, "ratio": 0.5, "flag": True, "list": ["a", 1, None]},
    ],
)  # fmt: skip
def test_counts_and_empty_values_are_kept(counts: dict[str, Any]) -> None:
    assert masking.value(counts) == counts


@requirement("P131")
@pytest.mark.parametrize(
    "value",
    [
        ValueError(f"failed with {CANARY}"),
        {"error": RuntimeError(CANARY)},
        [Path(f"/tmp/{CANARY}")],
        {CANARY: 1},
        {"x": (1, CANARY)},
        {"x": {CANARY}},
        CANARY.encode(),
        [["Authorization", "canary"], ("x-api-key", "canary")],
    ],
)
def test_a_secret_is_masked_in_whatever_holds_it(value: Any) -> None:
    assert "canary" not in repr(masking.value(value))


def test_a_masked_copy_is_plain_data_and_the_original_untouched() -> None:
    original = {"a": [1, {"password": "x"}], "at": datetime(2026, 1, 1, tzinfo=UTC)}
    masked = masking.value(original)
    json.dumps(masked)
    assert original["a"] == [1, {"password": "x"}]


def test_a_secret_shorter_than_eight_is_a_placeholder_and_masked_by_name_only() -> None:
    short = Masking(("any", ""))
    assert short.text("any company") == "any company"
    assert short.value({"api_key": "any"}) == {"api_key": MASK}


LOG = """
import logging, structlog, sys
from roundturn.telemetry import Masking, configure
configure(sys.argv[1], Masking(("canary-0123456789",)), "worker")
log = structlog.get_logger()
try:
    raise ValueError("bad key canary-0123456789")
except ValueError as fault:
    log.exception("it.failed", fault=fault, headers={"Authorization": "Basic canary"}, input_tokens=3)
    logging.getLogger("library").error("from a library canary-0123456789", exc_info=True)
with structlog.contextvars.bound_contextvars(turn="s/1"):
    log.debug("fine.grained", url="https://u:canary@h/")
logging.getLogger("library").warning("%s and %s", "canary-0123456789", {"password": "canary1"})
logging.getLogger("httpx2").info("GET http://x/?token=canary-0123456789")
"""


def lines(level: str) -> list[dict[str, Any]]:
    ended = subprocess.run([sys.executable, "-c", LOG, level], capture_output=True, text=True, check=True)
    assert "canary" not in ended.stderr
    return [json.loads(line) for line in ended.stderr.splitlines()]


@requirement("P131")
def test_log_lines_are_json_with_ids_and_without_secrets_whoever_wrote_them() -> None:
    failed, library, fine, warned = lines("debug")
    assert (failed["event"], failed["level"], failed["process"]) == ("it.failed", "error", "worker")
    assert failed["headers"] == {"Authorization": MASK}
    assert failed["input_tokens"] == 3
    assert "Traceback" in failed["exception"]
    assert "bad key ***" in failed["exception"]
    assert library["event"] == "from a library ***"
    assert (fine["event"], fine["turn"]) == ("fine.grained", "s/1")
    assert warned["event"].startswith("*** and ")
    assert all(datetime.fromisoformat(line["timestamp"]).tzinfo for line in (failed, library, fine, warned))


def test_the_level_holds_for_ours_and_for_libraries() -> None:
    assert [line["level"] for line in lines("error")] == ["error", "error"]


@requirement("X-07")
@pytest.mark.parametrize(
    "line",
    ["secret = payload", "token = settings.token", "max_token = 100000", "token=get_token2(x)", "def f(password: str) -> None:",
     "if api_key is None:", "authorization: required", "secret_name=secret_name", "key = value"],
)  # fmt: skip
async def test_a_program_that_a_tool_reads_is_not_masked(line: str) -> None:
    assert await masking.output(line) == line


PEM_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{PEM_LINE}\n{PEM_LINE}\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S\n-----END PRIVATE KEY-----"
LETTERS = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
# What must not be left of a text, and the text. Put together here, so that no scanner takes them for real ones.
OUTPUTS = [
    ("7a2d9f", "API_TOKEN=canary-7a2d9f"),
    ("hunter", "password: hunter2hunter"),
    ("a1b2", '"secret": "a1b2c3d4e5"'),
    ("canary", f"x {CANARY} y"),
    ("Tail", "DB_PASSWORD=abc12345$XyZ987SuperTail"),
    ("Tail", "password: Pa55word1#Tail-of-it"),
    ("gh'", "token='abc123!def456$gh'"),
    ("b12345678", '{"password":"a\\"b12345678"}'),
    ("b1234", '{\\"token\\": \\"ab1234567\\"}'),
    ("hunter", "secret: password: hunter2hunter"),
    ("hunter", "secret:\n  hunter2hunter"),
    ("EXAMPLEKEY", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("abcd1234", "X-Api-Key: abcd1234efgh"),
    ("a1B2", f"Authorization: Token {LETTERS}"),
    ("a1B2", f"Authorization: Bearer {LETTERS}"),
    ("Y2Fu", "Authorization: Basic Y2FuYXJ5OnBhc3M="),
    ("a1B2", f"Set-Cookie: session={LETTERS}; Path=/"),
    ("a1B2", f"cookie: theme=dark; session={LETTERS}"),
    ("s3cr3t", "machine example.org login me password s3cr3tpassw0rd"),
    ("s3cr3t", "default login me password s3cr3tpassw0rd"),
    ("hunter", "postgresql://user:hunter@host/db"),
    ("hunter", "postgresql://user:hunter@x2@host/db"),
    *((LETTERS[:8], begin + LETTERS) for begin in (
        "s" + "k-", "sk-proj-", "sk" + "_live_", "rk" + "_live_", "whsec_", "gh" + "p_", "github_" + "pat_", "gl" + "pat-",
        "xox" + "b-", "xapp-1-", "AI" + "za", "np" + "m_", "h" + "f_", "https://hooks.slack.com/" + "services/T0/B0/",
    )),
    ("7EXAMPLE", "AK" + "IAIOSFODNN7EXAMPLE"),
    ("7EXAMPLE", "AS" + "IAIOSFODNN7EXAMPLE"),
    ("abcdef", "dop" + "_v1_" + "0123456789abcdef" * 4),
    ("0123", "AGE-SECRET" + "-KEY-" + "0123456789ABCDEF" * 3),
    (LETTERS[:8], f"ey{'J'}hbGciOiJIUzI1NiJ9.{LETTERS}.{LETTERS}"),
    ("MIIE", PEM),
    ("MIIE", PEM.replace("\n", "\\n")),
    ("MIIE", PEM.replace(" PRIVATE", " OPENSSH PRIVATE")[:120]),
    ("MIIE", PEM[30:]),
    ("MIIE", "".join(f"{n:6d}\t{line}\n" for n, line in enumerate(PEM.splitlines()))),
    ("MIIE", PEM.replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,2F\n\n", 1)),
]  # fmt: skip


@requirement("X-07")
@pytest.mark.parametrize(("secret", "text"), OUTPUTS)
async def test_what_looks_like_a_secret_is_hidden_in_what_a_tool_brings_back(secret: str, text: str) -> None:
    for before, behind in (("", ""), ("x = 1\n", "\nnext line"), ("\u0130 ", " \u0130")):
        shown = await masking.output(before + text + behind)
        assert HIDDEN in shown
        assert secret not in shown
        assert shown.startswith(before)
        assert shown.endswith(behind)
    assert secret not in masking.text(text)


@requirement("X-07")
@given(st.lists(st.sampled_from([text for _, text in OUTPUTS]), max_size=8), st.integers(0, 60_000))
async def test_where_a_secret_stands_in_a_long_output_makes_no_difference(
    texts: list[str], lead: int
) -> None:
    shown = await masking.output("-" * lead + "\n" + "\n;\n".join(texts))
    assert shown == "-" * lead + "\n" + "\n;\n".join([await masking.output(text) for text in texts])


@requirement("X-07")
async def test_the_end_of_a_private_key_is_hidden_as_far_as_the_mark_of_a_cut() -> None:
    shown = await masking.output(f"[... the middle is cut ...]\n{PEM[40:]}\nafter")
    assert shown == f"[... the middle is cut ...]\n{HIDDEN}-----END PRIVATE KEY-----\nafter"


@requirement("X-07")
@pytest.mark.parametrize(
    "program",
    [
        'if text.startswith("-----BEGIN RSA PRIVATE KEY-----"):',
        'begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"',
        "machine learning needs no password",
        "the login form has a password field",
        "bearer authentication",
        "Basic Authentication",
        'headers = {"Cookie": cookie}',
        "see http://host:8080/a@b",
        "token_url = https://example.org/oauth2",
        "password = %(password1)s, token=$TOKEN12345, secret: ${SECRET_12}",
        "git checkout disk-sk-management-and-more",
    ],
)
async def test_a_program_or_prose_about_secrets_stays_readable(program: str) -> None:
    assert await masking.output(program) == program


@requirement("X-07")
@pytest.mark.parametrize("length", [9, 16_384, 200_000])
async def test_a_secret_of_any_length_is_masked_whole(length: int) -> None:
    for before in ("", "x " * 5_000, " " * 16_380):
        shown = await masking.output(f"{before}sk-{'c1' * length} after")
        assert shown == f"{before}{HIDDEN} after"


def test_a_long_text_in_a_log_keeps_its_ends_and_no_half_of_a_secret() -> None:
    half = LONGEST_LOGGED // 2
    text = "x " * (half // 2 - 5) + CANARY + " y" * half + "\nValueError: the end"
    shown = masking.text(text)
    assert len(shown) < LONGEST_LOGGED + 100
    assert f"[... {len(text)} characters in all, the middle is cut ...]" in shown
    assert "canary" not in shown
    assert shown.endswith("\nValueError: the end")


# What people judge, whole: each of these was hidden once, wholly or in part, or is like one that was.
RUNNABLE: list[Any] = [
    "chmod +x payload.sh; token= ./payload.sh",
    "password= /usr/bin/evil2",
    "curl http://u:$(id>pwned2;echo${IFS}RAN)@localhost:1/",
    "echo ://a:b;touch${IFS}pwned2;c@x",
    "echo bearer\n./payload2.sh",
    "echo bearer payload-2-run",
    "secret:\n/usr/bin/evil2",
    "password:/usr/bin/evil2",
    "export API_KEY=\nrm-everything-2",
    "make PASSWORD=!important2/evil",
    "echo basic Q2FSSGVsbG8/evil",
    "rsync -a . secret:/srv/x2/and/more",
    "git push origin secret:release2020",
    "docker run token:malicious2",
    "token=/bin/evil1234",
    "token=bin/evil1234",
    "token=payload1234(x)",
    "token=object1234.method",
    "token=a1b2c3d4$(id)",
    "token=a1b2c3d4`id`",
    "password: hunter2hunter",
    "./sk-a1b2c3d4e5f6g7",
    "bin/sk-a1b2c3d4e5f6g7 --run",
    "sk-a1b2c3d4e5f6g7/run",
    "-----BEGIN PRIVATE KEY-----\nbin/run-evil-Program-1234567890\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nrm -rf /\nAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----",
    "machine x login y password payload1234",
    {"argv": ["passwd", "root"]},
    {"argv": ["token", "rm -rf /data"]},
    {"token_amount": 1000000, "token": 5, "secret": True},
    {"secret_path": "/etc/shadow", "token": "rm -rf /2", "password": "$(id>file2)", "secret": "/etc/passwd2"},
    {"password": ["rm", "-rf", "file12345"], "token": {"run": "payload12345"}},
]


@requirement("P131", "M-14")
@pytest.mark.parametrize("arguments", RUNNABLE)
async def test_nothing_that_could_run_is_hidden_from_who_decides(arguments: Any) -> None:
    assert await masking.arguments({"x": arguments}) == {"x": arguments}


@requirement("P131", "M-14")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"echo {CANARY}", "echo [secret hidden]"),
        ({CANARY: [CANARY]}, {"[secret hidden]": ["[secret hidden]"]}),
        ("TOKEN=a1b2c3d4 ./run", "TOKEN=a1b2c3d4 ./run"),
        (f"echo token={LETTERS}1 > x; cut -d= -f2- x | base64 -d | sh", f"echo token={LETTERS}1 > x; cut -d= -f2- x | base64 -d | sh"),
        (f"./sk-{LETTERS}", f"./sk-{LETTERS}"),
        ({"access_token": "a1b2c3d4"}, {"access_token": "a1b2c3d4"}),
        (PEM, PEM),
    ],
)  # fmt: skip
async def test_who_decides_sees_all_but_what_the_process_itself_holds(given: Any, shown: Any) -> None:
    """Whatever else looks like a secret may be a program."""
    assert await masking.arguments({"x": given}) == {"x": shown}


PIECES = st.sampled_from(
    ["token=", "password: ", "secret:", '"token": "', "Authorization: Bearer ", "bearer ", "basic ", "cookie: a=", "://u:", "@h",
     "sk-", "ghp_", "eyJ", "AKIA", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "hooks.slack.com/services/a/b/",
     "a1b2c3d4", LETTERS, PEM_LINE, "token=a1b2c3d4", " sk-" + LETTERS, "Authorization: Bearer a1b2c3d4", "://u:p1@h", PEM,
     "\n", " ", "\t", "$(id)", "`id`", ";", "|", "&", "<", ">", "(", "[", "/", "./", "'", '"', "\\",
     "=", ".", "-", "\u0130", "x"]
)  # fmt: skip


@requirement("P131", "M-14")
@given(st.lists(PIECES | st.text(max_size=3), max_size=20).map("".join))
async def test_of_any_text_who_decides_sees_every_character(text: str) -> None:
    assert await Masking().arguments({"x": text, text: 1}) == {"x": text, text: 1}


HOSTILE = [
    "token=", "a1token=", "token=(", "password: ", "token = ", "token" + " " * 60, "bearer ", "bearer" + " " * 15, "basic A",
    "authorization: bearer ", "://", "://u:", "://u:a@", "a@", '"token": "', '\\"', "'", " ", "\n", "{", "api_key", "_key",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----" + " " * 110, "-----END PRIVATE KEY-----", "A1\\n", PEM_LINE + "\n",
    "eyJ-", ".eyJ", "sk-", " sk-a1b2c3d4e5", "ghp_a", "machine ", "machine x password ", "login " + "x" * 200 + " ", "cookie: a;",
    "hooks.slack.com/services/a/b/", "\u0130token=", "token=a1b2c3d4 ",
]  # fmt: skip
CPU_S = 2.5  # for a megabyte three times; it is about 0.5, and was minutes


@requirement("P131", "X-07")
@pytest.mark.parametrize("unit", HOSTILE)
async def test_a_megabyte_that_was_made_to_be_slow_is_masked_in_linear_time(unit: str) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000] + "("
    started = time.process_time()
    await masking.output(text)
    await masking.arguments({"content": text})
    masking.text(text)
    assert time.process_time() - started < CPU_S


@requirement("P131")
async def test_ten_thousand_names_are_masked_in_linear_time() -> None:
    names = {f"token{n}": {"password": f"a1b2c3d4{n}"} for n in range(10_000)}
    alike = {f"sk-{LETTERS}{n}": n for n in range(10_000)}
    started = time.process_time()
    assert len(await masking.arguments(names)) == 10_000
    assert sorted((await masking.arguments(alike)).values()) == list(range(10_000))
    assert len(masking.value(alike)) == 10_000
    assert time.process_time() - started < CPU_S


@requirement("P131", "X-07")
async def test_the_event_loop_goes_on_while_a_long_text_is_masked() -> None:
    text = "token=a1b2c3d4 " * 30_000
    breaths = asyncio.create_task(count_breaths())
    await masking.output(text)
    breaths.cancel()
    assert await breaths > len(text) / 15 / WORK / 2, "at least one in a few milliseconds"


async def count_breaths() -> int:
    count = 0
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(0)
            count += 1
    return count


def test_a_password_that_is_a_word_is_not_hidden_wherever_it_is_said() -> None:
    assert Masking(("roundturn",)).text("roundturn runs") == "roundturn runs"
    assert Masking(("roundturn7",)).text("roundturn7 runs") == "*** runs"


@requirement("X-07", "P131")
@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from(["", "%", " "]))
async def test_of_a_secret_that_was_cut_no_long_part_is_left(begin: int, end: int, beside: str) -> None:
    """A tool may have cut it, between any two characters."""
    for part in (LETTERS[: 40 - end], LETTERS[begin:]):
        shown = await Masking((LETTERS,)).output(beside * 3 + part + beside * 3)
        assert shown == beside * 3 + (part if len(part) < 16 else HIDDEN) + beside * 3
