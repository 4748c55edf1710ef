"""The port to a model: one request in, one whole reply out, errors already told apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from roundturn.message import Reply


@dataclass(frozen=True)
class ModelRequest:
    """`messages` and `tools` are in the wire shape of chat completions, in a fixed order (P92).

    `messages` is the JSON array itself: a long talk is put into bytes once, not at every step of it.
    """

    model: str
    messages: bytes
    tools: Sequence[dict[str, Any]]


class ModelPort(Protocol):
    async def complete(self, request: ModelRequest) -> Reply:
        """One attempt, no retries of its own (P14).

        Raises `ModelUnavailable` for what may pass (429, 5xx, connection, a stream that ends without its
        end) and `ModelRefused` for what will not (400, 401, 403, 404).
        """

    async def close(self) -> None: ...
