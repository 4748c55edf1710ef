"""One log line an event, with the ids of the work it belongs to, JSON when nobody watches, secrets masked."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

MASK = "***"
SECRET_NAMES = re.compile(
    r"(api[_-]?key|authorization|token|secret|password|passwd|cookie|credential)", re.IGNORECASE
)
SECRET_SHAPES = re.compile(
    r"(?i:bearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
COUNTS = re.compile(r"tokens?$", re.IGNORECASE)  # input_tokens counts, it does not open doors


class Masking:
    """Masks values by their name, by their shape, and by the secrets this process itself holds (P131)."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = tuple(secret for secret in secrets if len(secret) >= 8)

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return SECRET_SHAPES.sub(MASK, text)

    def value(self, value: Any, name: str = "") -> Any:
        """A masked copy of plain data: strings, mappings, sequences."""
        if isinstance(value, dict):
            return {key: self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, name) for item in value]
        if name and SECRET_NAMES.search(name) and not COUNTS.search(name) and value not in (None, "", False):
            return MASK
        return self.text(value) if isinstance(value, str) else value

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """As a structlog processor: after exceptions were rendered, before the line is."""
        return {key: self.value(item, key) for key, item in event.items()}


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
    for chatty in ("httpx2", "httpcore2", "openai", "aiosqlite", "asyncio", "alembic"):
        logging.getLogger(chatty).setLevel(max(numeric, logging.WARNING))
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)
