"""One log line an event, with the ids of the work it belongs to, JSON when nobody watches, secrets masked."""

import asyncio
import logging
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, MutableMapping
from itertools import takewhile
from typing import Any, TypeVar, cast

import structlog

from roundturn.jsontext import whole_words
from roundturn.shapes import IN_LOGS, IN_OUTPUT, WORK, Shape, Span, find

MASK = "***"
# In what came back, and in what people judge: nothing else says that, so it is known when it is sent on, and counted.
HIDDEN = "[secret hidden]"
SHORTEST_SECRET = 8  # a shorter one is a placeholder, or a word that would be masked everywhere
LONGEST_WORD = (
    20  # of letters only, so that what holds `roundturn` for its password does not hide every mention
)
PART = 16  # characters of a secret's beginning or end by which it is known
LONGEST_NAME = 200
BREATH = 64  # values, some milliseconds
LONGEST_LOGGED = 32_768  # characters of one text in a log
SECRET_NAMES = re.compile(
    r"(api[_-]?key|access[_-]?key|private[_-]?key|authorization|token|secret|password|passwd|passphrase"
    r"|cookie|credential)",
    re.IGNORECASE,
)
COUNTS = re.compile(r"tokens|token_count", re.IGNORECASE)  # input_tokens counts, it does not open doors

T = TypeVar("T")
Steps = Generator[None, None, T]  # a breath between two of them


class Masking:
    """Masks values by their name, by their shape, and by the secrets this process itself holds (P131)."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = {secret for secret in secrets if _is_long_enough(secret)}

    def text(self, text: str) -> str:
        """For logs and screens that nobody decides by. A long text loses its middle."""
        if len(text) > LONGEST_LOGGED:
            half = LONGEST_LOGGED // 2
            head, tail = whole_words(text[:half]), whole_words(text[-half:], from_middle=True)
            text = f"{head}[... {len(text)} characters in all, the middle is cut ...]{tail}"
        return _at_once(self._masked(text, IN_LOGS, MASK))

    async def output(self, text: str) -> str:
        """What a tool brought back, of any length; whoever shares the event loop goes on meanwhile."""
        return await _with_breaths(self._masked(text, IN_OUTPUT, HIDDEN))

    async def arguments(self, value: Any) -> Any:
        """A copy for people who decide by it: only what this process itself holds is hidden.

        Whatever else looks like a secret may be a program (`token=…; echo $token | base64 -d | sh`), and who decides must
        see what would run. `value` is JSON. The event loop goes on meanwhile.
        """
        return await _with_breaths(self._judged(value))

    def _judged(self, value: Any) -> Steps[Any]:
        if isinstance(value, str):
            return (yield from self._masked(value, (), HIDDEN))
        if isinstance(value, Mapping):
            items = []
            for key, item in value.items():
                shown = yield from self._masked(key, (), HIDDEN)
                items.append((shown, (yield from self._judged(item))))
                if len(items) % BREATH == 0:
                    yield
            return _named(items)
        if isinstance(value, list | tuple):
            copy = []
            for item in value:
                copy.append((yield from self._judged(item)))
                if len(copy) % BREATH == 0:
                    yield
            return copy
        return value

    def _masked(self, text: str, shapes: tuple[Shape, ...], put: str) -> Steps[str]:
        if len(text) < SHORTEST_SECRET:
            return text
        hidden = bytearray(len(text))
        for start, end in _held(text, self._secrets):
            hidden[start:end] = b"\1" * (end - start)
        for span in find(text, shapes):
            if span is None:
                yield
            else:
                hidden[slice(*span)] = b"\1" * (span[1] - span[0])
        return (yield from _without(text, hidden, put))

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
            return _named((self._key(key), self.value(item, str(key))) for key, item in value.items())
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


def _held(text: str, secrets: Iterable[str]) -> Iterator[Span]:
    """Where these are, also without their end or beginning: somebody may have cut the text there."""
    for secret in secrets:
        beginning, end = secret[:PART], secret[-PART:]
        at = text.find(beginning)
        while at >= 0:
            yield at, at + _alike(secret, text[at : at + len(secret)])
            at = text.find(beginning, at + 1)
        at = text.find(end)
        while at >= 0:
            behind = at + len(end)
            read = text[max(0, behind - len(secret)) : behind]
            yield behind - _alike(secret[::-1], read[::-1]), behind
            at = text.find(end, at + 1)


def _alike(one: str, other: str) -> int:
    """So many characters, from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(T, done.value)


async def _with_breaths(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(T, done.value)
        await asyncio.sleep(0)


def _without(text: str, hidden: bytearray, put: str) -> Steps[str]:
    """`put` for each run of what is hidden."""
    parts: list[str] = []
    end = 0
    while (start := hidden.find(1, end)) >= 0:
        parts += text[end:start], put
        end = hidden.find(0, start)
        if end < 0:
            end = len(text)
        if len(parts) % WORK == 0:
            yield
    return "".join(parts) + text[end:] if parts else text


def _named(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Two names that look alike when they are masked stay two."""
    copy: dict[Any, Any] = {}
    number = 1
    for name, item in items:
        shown = name
        while shown in copy:
            number += 1
            shown = f"{name} ({number})"
        copy[shown] = item
    return copy


def _is_long_enough(secret: str) -> bool:
    return len(secret) >= (LONGEST_WORD if secret.isalpha() else SHORTEST_SECRET)


def _is_secret(name: str) -> bool:
    return SECRET_NAMES.search(name[-LONGEST_NAME:]) is not None


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
