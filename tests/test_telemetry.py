"""No secret reaches a log line or a screen, and what only counts or reads like one stays readable."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.telemetry import HIDDEN, MASK, OUTPUT_PAIRS, WINDOW, Masking, _passes
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
@given(
    st.from_regex(r"[A-Za-z0-9.=-]{6,12}", fullmatch=True),
    st.sampled_from(["; rm -rf /", " && x", "$(x)", "`x`", "|sh", ">f"]),
)
def test_no_shape_hides_what_a_shell_would_run_beside_a_secret(secret: str, command: str) -> None:
    """A person judges masked arguments."""
    for before in ("token=", "password: ", "Authorization: Basic ", "bearer "):
        assert masking.text(before + secret + command).endswith(command)


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


PARTS = st.sampled_from(
    [CANARY, "Bearer canary.abc.def", "password = canary123", "sk-canary123456", "https://u:canary99@h/", "token=f(x)",
     "Basic Y2FuYXJ5OnBhc3M=", "\n", " ", "x", '{"a": 1}', "secret:\n  canary-1234", "ghp_" + "c" * 40]
)  # fmt: skip


@requirement("X-07", "P131")
@given(
    st.lists(PARTS, max_size=30),
    st.integers(-60, 20),
    st.sampled_from(["-", " ", "x", "=\n"]),
    st.integers(1, 3),
)
async def test_a_long_output_is_masked_as_a_short_text_is_wherever_its_windows_end(
    parts: list[str], shift: int, filler: str, windows: int
) -> None:
    text = (filler * (windows * WINDOW))[: windows * WINDOW + shift] + "".join(parts) + filler * WINDOW
    assert await masking.output(text) == whole(text)


def whole(text: str) -> str:
    """The same patterns over all of the text at once."""
    for secret in (CANARY + "-longer", CANARY):
        text = text.replace(secret, HIDDEN)
    for pattern, put in _passes(text, OUTPUT_PAIRS, HIDDEN):
        text = pattern.sub(put, text)
    return text


@requirement("X-07")
@pytest.mark.parametrize(
    "line",
    ["secret = payload", "token = settings.token", "max_token = 100000", "token=get_token2(x)", "def f(password: str) -> None:",
     "if api_key is None:", "authorization: required", "secret_name=secret_name", "key = value"],
)  # fmt: skip
async def test_a_program_that_a_tool_reads_is_not_masked(line: str) -> None:
    assert await masking.output(line) == line


@requirement("X-07")
@pytest.mark.parametrize(
    "line",
    [
        "API_TOKEN=canary-7a2d9f",
        "password: hunter2hunter",
        '"secret": "a1b2c3d4e5"',
        "x sk-canary123456",
        CANARY,
    ],
)
async def test_what_looks_like_a_credential_is_hidden_in_what_a_tool_brings_back(line: str) -> None:
    assert HIDDEN in await masking.output(line)


@requirement("X-07")
@pytest.mark.parametrize("length", [WINDOW - 9, WINDOW + 1, 3 * WINDOW, 200_000])
async def test_a_secret_that_is_longer_than_a_window_is_masked_whole(length: int) -> None:
    for before in ("", "x " * 5_000, " " * (WINDOW - 5)):
        shown = await masking.output(f"{before}sk-{'c' * length} after")
        assert shown == f"{before}{HIDDEN} after"
