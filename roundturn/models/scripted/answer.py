"""The scripted answer in the wire shape of chat completions, whole or in chunks, distorted when planned."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from roundturn.models.scripted.exchange import Exchange
from roundturn.models.scripted.scenario import Fault, LengthFault, RefusalFault, ScriptedCall

CHARACTERS_PER_TOKEN = 4  # a rule of thumb; the counts are plausible, not true
TEXT_PARTS, ARGUMENT_PARTS = 4, 3


@dataclass(frozen=True)
class Call:
    id: str | None
    name: str
    arguments: str

    def wire(self, arguments: str) -> dict[str, Any]:
        named = {} if self.id is None else {"id": self.id}
        return {**named, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True)
class Answer:
    id: str
    model: str
    created: int
    text: str
    reasoning: str
    calls: tuple[Call, ...]
    finish: str | None
    usage: dict[str, Any] | None
    refusal: str | None = None
    shape: Literal["whole", "no_choices", "no_message"] = "whole"

    def completion(self) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        choices = [{"index": 0, "message": self._message(), "logprobs": None, "finish_reason": self.finish}]
        body = self._envelope("chat.completion", [] if self.shape == "no_choices" else choices)
        return body if self.usage is None else {**body, "usage": self.usage}

    def chunks(self, include_usage: bool) -> Iterator[dict[str, Any]]:
        """The same answer as the data of server-sent events, without the `[DONE]`."""
        counted = {"usage": None} if include_usage else {}
        for choices in self._streamed_choices():
            yield {**self._envelope("chat.completion.chunk", choices), **counted}
        if include_usage and self.usage is not None:
            yield {**self._envelope("chat.completion.chunk", []), "usage": self.usage}

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": "scripted",
            "choices": choices,
        }

    def _message(self) -> dict[str, Any] | None:
        if self.shape == "no_message":
            return None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.text or None,
            "refusal": self.refusal,
        }
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [call.wire(call.arguments) for call in self.calls]
        return message

    def _streamed_choices(self) -> Iterator[list[dict[str, Any]]]:
        if self.shape == "no_choices":
            yield []
            return
        if self.shape == "whole":
            for delta in self._deltas():
                yield [_choice(delta)]
        if self.finish is not None:
            yield [_choice(None if self.shape == "no_message" else {}, self.finish)]

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": "", "refusal": None}
        for piece in split(self.reasoning, TEXT_PARTS):
            yield {"reasoning_content": piece}
        for piece in split(self.text, TEXT_PARTS):
            yield {"content": piece}
        for piece in split(self.refusal or "", TEXT_PARTS):
            yield {"refusal": piece}
        for index, call in enumerate(self.calls):
            yield {"tool_calls": [{"index": index, **call.wire("")}]}
            for piece in split(call.arguments, ARGUMENT_PARTS):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def compose(exchange: Exchange, model: str, created: int, prompt_characters: int) -> Answer:
    """The well-behaved answer to an exchange."""
    step = exchange.answer
    text = exchange.fill(step.text)
    calls = tuple(_call(exchange, index, call) for index, call in enumerate(step.calls))
    usage = step.usage
    if "usage" not in step.model_fields_set:
        said = len(text) + len(step.reasoning) + sum(len(call.arguments) + len(call.name) for call in calls)
        usage = _counted(prompt_characters, said)
    return Answer(
        id=f"chatcmpl-{exchange.key[:24]}",
        model=model,
        created=created,
        text=text,
        reasoning=exchange.fill(step.reasoning),
        calls=calls,
        finish="tool_calls" if calls else "stop",
        usage=usage,
    )


def distort(answer: Answer, fault: Fault | None) -> Answer:
    """The answer with a fault of content in it; faults of transport leave it as it is."""
    if isinstance(fault, LengthFault):
        return _cut_off(answer, fault.cut)
    if isinstance(fault, RefusalFault):
        return replace(answer, text="", calls=(), refusal=fault.text, finish="stop")
    match fault.kind if fault else None:
        case "no_finish":
            return replace(answer, finish=None)
        case "empty":
            return replace(answer, shape="no_choices")
        case "null_message":
            return replace(answer, shape="no_message", finish="content_filter")
        case _:
            return answer


def split(text: str, parts: int) -> Iterator[str]:
    size = -(-len(text) // parts) or 1
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _choice(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _call(exchange: Exchange, index: int, call: ScriptedCall) -> Call:
    made = f"call_{hashlib.sha256(f'{exchange.key} {index}'.encode()).hexdigest()[:24]}"
    given = call.id if "id" in call.model_fields_set else made
    if isinstance(call.arguments, str):
        return Call(given, call.name, exchange.fill(call.arguments))
    return Call(given, call.name, json.dumps(_filled(exchange, call.arguments), ensure_ascii=False))


def _filled(exchange: Exchange, value: Any) -> Any:
    if isinstance(value, str):
        return exchange.fill(value)
    if isinstance(value, list):
        return [_filled(exchange, item) for item in value]
    if isinstance(value, dict):
        return {key: _filled(exchange, item) for key, item in value.items()}
    return value


def _counted(prompt_characters: int, said_characters: int) -> dict[str, Any]:
    prompt = prompt_characters // CHARACTERS_PER_TOKEN + 1
    completion = said_characters // CHARACTERS_PER_TOKEN + 1
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _cut_off(answer: Answer, kept: int | None) -> Answer:
    if not answer.calls:
        kept = len(answer.text) // 2 if kept is None else kept
        return replace(answer, text=answer.text[:kept], finish="length")
    last = answer.calls[-1]
    kept = len(last.arguments) // 2 if kept is None else kept
    cut = replace(last, arguments=last.arguments[:kept])
    return replace(answer, calls=(*answer.calls[:-1], cut), finish="length")
