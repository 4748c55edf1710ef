"""One log line an event, with the ids of the work it belongs to, JSON when nobody watches, secrets masked."""

import asyncio
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

MASK = "***"
HIDDEN = (
    "[secret hidden]"  # in what came back: nothing else says that, so that it is known when it is sent on
)
SHORTEST_SECRET = 8  # a shorter one is a placeholder, or a word that would be masked everywhere
SECRET_NAMES = re.compile(
    r"(api[_-]?key|access[_-]?key|private[_-]?key|authorization|token|secret|password|passwd|passphrase"
    r"|cookie|credential)",
    re.IGNORECASE,
)
# People judge masked arguments, so no shape may swallow what a shell or a language would run.
SECRET_SHAPES = re.compile(
    r"(?i:bearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?i:(?<=basic )|(?<=basic\t))(?=\S*[A-Z0-9=])[A-Za-z0-9+/]{8,}={0,2}"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
)
# `key=value` and `"key": "value"`; a call such as token=get_token() is code.
SECRET_PAIRS = re.compile(
    r"((?i:api[_-]?key|access[_-]?key|authorization|token|secret|password|passwd|passphrase)[\"']?\s*[=:]\s*[\"']?)"
    r"(?!(?i:bearer|basic)\s)[A-Za-z0-9._~+/=%!-]{6,}+(?![(\[])"
)
# In what a tool brings back, which may be somebody's program: only a value that no word or name of a variable is.
OUTPUT_PAIRS = re.compile(
    SECRET_PAIRS.pattern.split("(?!(?i:bearer", 1)[0]
    + r"(?!(?i:bearer|basic)\s)(?=[A-Za-z._~+/=%!-]*[0-9])(?=[0-9._~+/=%!-]*[A-Za-z])[A-Za-z0-9._~+/=%!-]{8,}+(?![(\[])"
)
# What a text must have, in small letters, before the patterns above can find anything: looking for these costs a
# hundredth of the patterns.
SHAPE_MARKS = ("bearer", "basic", "sk-", "gh", "github_pat", "xox", "akia")
PAIR_MARKS = ("key", "authorization", "token", "secret", "passw", "passphrase")
WINDOW = 16 * 1024  # characters searched at one go, some milliseconds
OVERLAP = 1024  # of one window with the next: so far apart may the parts be by which a secret is known
COUNTS = re.compile(r"tokens|token_count", re.IGNORECASE)  # input_tokens counts, it does not open doors


class Masking:
    """Masks values by their name, by their shape, and by the secrets this process itself holds (P131)."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        held = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        self._secrets = sorted(held, key=len, reverse=True)  # one may begin with another

    def text(self, text: str) -> str:
        text = self._without_held(text, MASK)
        for pattern, put in _passes(text, SECRET_PAIRS, MASK):
            text = pattern.sub(put, text)
        return text

    async def output(self, text: str) -> str:
        """What a tool brought back, of any length, a window at a time: whoever shares the event loop does not wait for all."""
        text = self._without_held(text, HIDDEN)
        for pattern, put in _passes(text, OUTPUT_PAIRS, HIDDEN):
            text = await _sub_in_windows(pattern, put, text)
        return text

    def _without_held(self, text: str, put: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, put)
        return text

    def value(self, value: Any, name: str = "") -> Any:
        """A masked copy as plain data: strings, numbers, mappings, lists; anything else as its masked text."""
        if value is None or isinstance(value, bool) or value == "":
            return value
        if isinstance(value, int | float):
            return MASK if _is_secret(name) and not COUNTS.search(name) else value
        if _is_secret(name):
            return MASK
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if len(value) == 2 and isinstance(value[0], str) and _is_secret(value[0]):  # a raw header
                return [value[0], self.value(value[1], value[0])]
            return [self.value(item) for item in value]
        return self.text(repr(value))

    def _key(self, key: Any) -> Any:
        return self.text(key) if isinstance(key, str) else key

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """As a structlog processor: after exceptions were rendered, before the line is."""
        return {key: self.value(item, key) for key, item in event.items()}


def _passes(text: str, pairs: re.Pattern[str], mask: str) -> list[tuple[re.Pattern[str], str]]:
    """The patterns that can find anything in it, one after the other, and what they put there."""
    low = text.lower()
    passes = []
    if any(mark in low for mark in SHAPE_MARKS) or ("://" in low and "@" in low):
        passes.append((SECRET_SHAPES, mask))
    if any(mark in low for mark in PAIR_MARKS):
        passes.append((pairs, rf"\1{mask}"))
    return passes


async def _sub_in_windows(pattern: re.Pattern[str], put: str, text: str) -> str:
    """`pattern.sub`, with a breath after each window. A match that reaches a window's end is looked for again."""
    parts: list[str] = []
    start, size = 0, WINDOW
    while (end := start + size) < len(text):
        copied = start
        cut_off = None
        for found in pattern.finditer(text, start, end):
            if found.end() == end:
                cut_off = found.start()
                break
            parts += text[copied : found.start()], found.expand(put)
            copied = found.end()
        reached = max(copied, end - OVERLAP) if cut_off is None else cut_off
        parts.append(text[copied:reached])
        size = WINDOW if reached > start else size * 2
        start = reached
        await asyncio.sleep(0)
    return "".join(parts) + pattern.sub(put, text[start:])


def _is_secret(name: str) -> bool:
    return bool(name) and SECRET_NAMES.search(name) is not None


def configure(level: str, masking: Masking, process: str) -> None:
    """Called once by a process; also routes the standard library's loggers through the same line and mask."""
    numeric = logging.getLevelNamesMapping()[level.upper()]
    terminal = sys.stderr.isatty()
    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Any] = [structlog.processors.format_exc_info, masking]
    render: Any = (
        structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(default=repr)
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, render],
            foreign_pre_chain=before,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(numeric)
    for chatty in ("httpx2", "httpcore2", "openai", "asyncio", "alembic"):
        logging.getLogger(chatty).setLevel(max(numeric, logging.WARNING))
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)
