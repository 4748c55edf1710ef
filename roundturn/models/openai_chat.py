"""The model port over any OpenAI-compatible chat-completions endpoint, on the openai SDK's raw responses."""

import asyncio
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream, OpenAIError

from roundturn.errors import ConfigurationError, ModelUnavailable
from roundturn.jsontext import dump
from roundturn.message import Reply
from roundturn.model import ModelRequest
from roundturn.models.openai_failure import failure, failure_in_body, plain
from roundturn.models.openai_reply import ReplyReader

CONNECT_LIMIT_S = 10.0
DRAIN_S = 0.1  # after [DONE], for the end of the HTTP message, so that the connection can be used again


class OpenAIChat:
    """One client for all sessions; connections are shared. Never retries (P14)."""

    def __init__(self, base_url: str | None, api_key: str, timeout_s: float, stream: bool = True) -> None:
        """`timeout_s`: how long the endpoint may be silent. Without `base_url`, the SDK's own default.

        Raises `ConfigurationError` for an address or key that no request could be made with.
        """
        self._key = api_key.strip()
        self._stream = stream
        if not self._key or not (self._key.isascii() and self._key.isprintable()):
            raise ConfigurationError(
                "the model's API key is empty or has characters that no HTTP header can carry",
                "set OPENAI_API_KEY (any word will do for an endpoint without keys)",
            )
        self._client = _client(base_url, self._key, timeout_s)

    async def complete(self, request: ModelRequest) -> Reply:
        reader = ReplyReader()
        try:
            # SDK objects and its walk over typed messages would cost more than the rest of a step: the
            # history goes out as the bytes it came in, and the answer is parsed by us.
            response = await self._client.post(
                "/chat/completions",
                content=self._body(request),
                cast_to=httpx2.Response,
                stream=True,  # of the HTTP body, whatever the endpoint was asked for
                stream_cls=AsyncStream[Any],
            )
            async with aclosing(cast(httpx2.Response, response)) as opened:
                await _read(opened, reader)
        except APIStatusError as fault:
            told = failure(
                fault.status_code, fault.body, fault.response.headers, self._key, datetime.now(UTC)
            )
            raise told from None  # the SDK's text may hold the key
        except (OpenAIError, httpx2.HTTPError) as fault:
            if not reader.complete:
                raise ModelUnavailable(self._connection_detail(fault)) from None
        if reader.error is not None:
            raise failure_in_body(reader.error, self._key, datetime.now(UTC))
        return reader.reply()

    async def close(self) -> None:
        await self._client.close()

    def _body(self, request: ModelRequest) -> bytes:
        options: dict[str, Any] = {"model": request.model, "stream": self._stream}
        if request.tools:  # an empty list is refused
            options["tools"] = request.tools
        if self._stream:
            options["stream_options"] = {"include_usage": True}
        return b"".join((dump(options).encode()[:-1], b',"messages":', request.messages, b"}"))

    def _connection_detail(self, fault: Exception) -> str:
        cause = fault.__cause__ if isinstance(fault, APIConnectionError) and fault.__cause__ else fault
        said = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        return f"the model endpoint {self._address()} is not reachable or broke off: {plain(said, self._key)}"

    def _address(self) -> str:
        """Host and port and nothing else: a URL may hold credentials, in its path and query too."""
        url = self._client.base_url
        host = f"[{url.host}]" if ":" in url.host else url.host
        return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _client(base_url: str | None, key: str, timeout_s: float) -> AsyncOpenAI:
    limits = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_LIMIT_S))
    try:
        client = AsyncOpenAI(api_key=key, base_url=base_url, timeout=limits, max_retries=0)
        if client.base_url.scheme in ("http", "https") and client.base_url.host:
            return client
    except httpx2.InvalidURL:
        pass
    raise ConfigurationError(
        f"the model's address {base_url!r} is not an http or https URL", "set OPENAI_BASE_URL"
    )


async def _read(response: httpx2.Response, reader: ReplyReader) -> None:
    """Lines are cut from bytes: the SDK's and httpx's own cut at U+2028 and other characters inside JSON."""
    async with aclosing(response.aiter_bytes()) as body:
        async for data in body:
            reader.feed(data)
            if reader.finished:
                break
        if not reader.finished:
            reader.close()
            return
        with suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(DRAIN_S):
                async for _ in body:
                    pass
