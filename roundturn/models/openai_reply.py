"""Bytes of a chat completion become one reply, streamed or not, however loosely its format is kept."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roundturn.errors import ModelUnavailable
from roundturn.jsontext import clean_text
from roundturn.message import AskedCall, Finish, Reply, Usage

REPLY_LIMIT_BYTES = 64 * 2**20  # far beyond any answer; an endless stream must not fill the worker's memory
DONE = "[DONE]"


class ReplyReader:
    """`feed` takes the body as it arrives, in any cuts; `reply` is asked once, at the end.

    `error` is the provider's error object when it sent one with status 200. Both raise
    `ModelUnavailable` for what is no chat completion.
    """

    def __init__(self) -> None:
        self.error: object = None
        self._draft = _Draft()
        self._pieces: list[bytes] = []
        self._size = 0
        self._streamed: bool | None = None
        self._done = False

    @property
    def finished(self) -> bool:
        """Nothing more has to be read."""
        return self._done or self.error is not None

    @property
    def complete(self) -> bool:
        """The answer's end was seen, whatever becomes of the connection (P10)."""
        return self._done or self._draft.finish is not None

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > REPLY_LIMIT_BYTES:
            raise ModelUnavailable(f"the model's answer is longer than {REPLY_LIMIT_BYTES} bytes")
        self._pieces.append(data)
        if self._streamed is None:
            start = b"".join(self._pieces).lstrip()
            if not start:
                return
            self._streamed = not start.startswith(b"{")
        if self._streamed and b"\n" in data:
            *lines, rest = b"".join(self._pieces).split(b"\n")
            self._pieces = [rest]
            for line in lines:
                self._read_line(line)

    def close(self) -> None:
        """The body has ended."""
        rest, self._pieces = b"".join(self._pieces), []
        if self._streamed is False:
            self._read_object(rest.decode("utf-8", "replace"))
            self._done = True
        elif not self.complete:
            self._read_line(rest)

    def reply(self) -> Reply:
        if not self.complete:
            raise ModelUnavailable("the model's answer ended without its end: no finish reason and no [DONE]")
        return self._draft.reply()

    def _read_line(self, line: bytes) -> None:
        """One line of server-sent events; every endpoint puts a whole chunk on one `data:` line."""
        if self.finished or not line.startswith(b"data:"):
            return
        text = line.removeprefix(b"data:").decode("utf-8", "replace").strip()
        if text == DONE:
            self._done = True
        elif text:
            self._read_object(text)

    def _read_object(self, text: str) -> None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelUnavailable("the model's answer is not readable JSON") from None
        if not isinstance(value, dict) or not (self._streamed or {"choices", "error"} & value.keys()):
            raise ModelUnavailable("the model's answer is not a chat completion")
        if value.get("error"):
            self.error = value["error"]
        else:
            self._draft.add(value)


@dataclass
class _Call:
    id: str
    name: str
    arguments: str

    def is_whole(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class _Draft:
    """What has been said so far: the sum of the chunks, of which a whole answer is the only one."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._indexed: dict[int, _Call] = {}
        self._usage = Usage()
        self._model = ""

    def add(self, chunk: dict[str, Any]) -> None:
        self._model = _string(chunk.get("model")) or self._model
        if isinstance(chunk.get("usage"), dict):
            self._usage = _usage(chunk["usage"])
        choice = next(_objects(chunk.get("choices")), {})
        self.finish = _string(choice.get("finish_reason")) or self.finish
        part = choice.get("delta") or choice.get("message")
        if not isinstance(part, dict):
            return
        self._text.append(_text(part.get("content")))
        self._refusal.append(_string(part.get("refusal")))
        for call in _objects(part.get("tool_calls")):
            self._add_call(call)

    def reply(self) -> Reply:
        """Surrogate pairs may be cut between chunks, so the text is cleaned as a whole."""
        text, refusal = clean_text("".join(self._text)), clean_text("".join(self._refusal))
        finish = self._finish(text, refusal)
        calls = (
            AskedCall(
                provider_id=clean_text(call.id),
                name=clean_text(call.name),
                arguments=clean_text(call.arguments),
            )
            for call in self._calls
        )
        return Reply(
            text=text or refusal,
            calls=() if finish == "filtered" else tuple(calls),
            finish=finish,
            usage=self._usage,
            model=clean_text(self._model),
        )

    def _finish(self, text: str, refusal: str) -> Finish:
        if self.finish == "content_filter" or refusal:
            return "filtered"
        if self.finish == "length":
            return "length"
        if self._calls:
            return "calls"
        return "stop" if text else "filtered"

    def _add_call(self, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some local servers send the object itself
            arguments = json.dumps(arguments)
        part = _Call(_string(delta.get("id")), _string(function.get("name")), _string(arguments))
        if not (part.id or part.name or part.arguments):
            return
        index = delta.get("index")
        held = self._held(index)
        if held is None or _begins_another(held, part, indexed=isinstance(index, int)):
            self._calls.append(part)
            if isinstance(index, int):
                self._indexed[index] = part
            return
        held.id = held.id or part.id
        held.name = held.name or part.name
        held.arguments += part.arguments

    def _held(self, index: object) -> _Call | None:
        if isinstance(index, int):
            return self._indexed.get(index)
        return self._calls[-1] if self._calls else None


def _begins_another(held: _Call, part: _Call, indexed: bool) -> bool:
    """Whether `part` is a call of its own, for endpoints that omit the index or give every call the same one.

    Some repeat the name, or make up a new id, in every piece of one call: a piece opens another call only
    when the one before it could be complete.
    """
    if not part.name:
        return False
    other_id = bool(held.id and part.id) and held.id != part.id
    could_be_complete = held.name != part.name or held.is_whole()
    if indexed:
        return other_id and could_be_complete
    return could_be_complete or (other_id and not held.arguments)


def _usage(block: dict[str, Any]) -> Usage:
    details = block.get("prompt_tokens_details")
    return Usage(
        input_tokens=_count(block.get("prompt_tokens")),
        output_tokens=_count(block.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _objects(value: object) -> Iterator[dict[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text(content: object) -> str:
    """Plain text, or the text parts of a list (where reasoning parts stand beside them)."""
    if isinstance(content, list):
        return "".join(_string(part.get("text")) for part in _objects(content) if part.get("type") == "text")
    return _string(content)
