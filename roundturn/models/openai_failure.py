"""What an OpenAI-compatible endpoint says when it fails, told apart once: may it pass, or will it not."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from roundturn.errors import ModelRefused, ModelUnavailable
from roundturn.jsontext import clean_text

DETAIL_LIMIT = 800  # characters of the provider's message
SHORTEST_SECRET = 4  # a shorter key is a placeholder of a local endpoint

CREDENTIALS_HINT = "check OPENAI_API_KEY, and that OPENAI_BASE_URL is the endpoint it belongs to"
MODEL_HINT = "check the model of the agent definition, and OPENAI_BASE_URL"
QUOTA_HINT = "the account behind OPENAI_API_KEY has no credit left: check its plan and billing"

# vLLM and llama.cpp say it in words only, OpenAI with the code (P16)
_OVERFLOW = re.compile(r"maximum context length|exceed\w* .{0,40}context|prompt is too long", re.IGNORECASE)
_NOT_STATUS = 0


def failure(
    status: int, error: object, headers: Mapping[str, str], key: str, now: datetime
) -> ModelUnavailable | ModelRefused:
    """The error to raise for an answer with `status`; `error` is its error object, or its text.

    `key` is masked in the provider's words. `now` is used when the response has no date of its own.
    """
    code, said = _codes(error), _message(error, key)
    detail = (
        f"the model endpoint answered {status}: {said}" if status else f"the model endpoint failed: {said}"
    )
    if "insufficient_quota" in code or status == 402:
        return ModelRefused(detail, "quota", QUOTA_HINT)
    if "context_length_exceeded" in code or (status in (400, 413, 422) and _OVERFLOW.search(said)):
        return ModelRefused(detail, "context_overflow")
    if status in (401, 403):
        return ModelRefused(detail, "credentials", CREDENTIALS_HINT)
    if status == 404:
        return ModelRefused(detail, "model_not_found", MODEL_HINT)
    if status == _NOT_STATUS or status in (408, 409, 425, 429) or status >= 500:
        return ModelUnavailable(detail, retry_after(headers, now))
    return ModelRefused(detail, "bad_request")


def failure_in_body(error: object, key: str, now: datetime) -> ModelUnavailable | ModelRefused:
    """The same for an error object that came with status 200; its code may be a status (OpenRouter)."""
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else _NOT_STATUS
    return failure(status, error, {}, key, now)


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How long to wait, from `retry-after-ms` or `retry-after`; None when neither makes sense (P13).

    A date counts from the response's own Date header, so that clocks need not agree (RFC 9110 10.2.3).
    """
    wait = _seconds(headers.get("retry-after-ms", ""), 0.001)
    if wait is not None:
        return wait
    text = headers.get("retry-after", "")
    wait = _seconds(text, 1)
    if wait is not None:
        return wait
    moment = _moment(text)
    if moment is None:
        return None
    distance = moment - (_moment(headers.get("date", "")) or now)
    return distance if distance > timedelta(0) else None


def _seconds(text: str, unit: float) -> timedelta | None:
    try:
        value = float(text) * unit
        return timedelta(seconds=value) if math.isfinite(value) and value > 0 else None
    except (ValueError, OverflowError):
        return None


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _codes(error: object) -> tuple[Any, ...]:
    return (error.get("code"), error.get("type")) if isinstance(error, dict) else ()


def _message(error: object, key: str) -> str:
    if isinstance(error, dict):  # `detail` is FastAPI's
        error = error.get("message") or error.get("detail") or error
    return plain(error if isinstance(error, str) else json.dumps(error or ""), key) or "it gave no reason"


def plain(text: str, key: str) -> str:
    """One line that may be stored and shown: without the key, bounded."""
    if len(key) >= SHORTEST_SECRET:
        text = text.replace(key, "***")
    return clean_text(" ".join(text.split()))[:DETAIL_LIMIT]
