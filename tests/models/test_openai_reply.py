"""Formats that endpoints are known to send, read without a network."""

import json
from typing import Any

import pytest

from roundturn.errors import ModelUnavailable
from roundturn.message import Reply
from roundturn.models.openai_reply import ReplyReader
from tests.requirements import requirement

A, B = '{"path":"a"}', '{"path":"b"}'


def call(arguments: str | None, name: str | None = None, **more: Any) -> dict[str, Any]:
    return more | {"function": {"name": name, "arguments": arguments}}


def stream(*deltas: dict[str, Any], finish: str = "tool_calls") -> bytes:
    parts: list[tuple[dict[str, Any], str | None]] = [*((delta, None) for delta in deltas), ({}, finish)]
    chunks = ({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in parts)
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def read(body: bytes, size: int = 1_000_000) -> Reply:
    reader = ReplyReader()
    for start in range(0, len(body), size):
        reader.feed(body[start : start + size])
    reader.close()
    return reader.reply()


@requirement("P01")
@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [
                [call(None, "read", index=0, id="x")],
                [call(A[:5], index=0)],
                [call(A[5:], index=0)],
                [call(None, "read", index=1, id="y")],
                [call(B, index=1)],
            ],
            id="as documented",
        ),
        pytest.param(
            [[call(A, "read", index=0, id="x"), call(B, "read", index=1, id="y")]], id="all in one chunk"
        ),
        pytest.param([[call(A, "read", id="x")], [call(B, "read", id="y")]], id="no index"),
        pytest.param([[call(A, "read", id="x"), call(B, "read", id="y")]], id="no index, one chunk"),
        pytest.param([[call(A, "read", id="x")], [call(B, "read", id="x")]], id="no index, same id"),
        pytest.param([[call(A, "read")], [call(B, "read")]], id="no index, no id"),
        pytest.param(
            [[call(A, "read", index=0, id="x")], [call(B, "read", index=0, id="y")]], id="same index"
        ),
        pytest.param(
            [
                [call(A[:4], "read", index=0, id="x")],
                [call(A[4:], "read", index=0, id="x")],
                [call(B[:4], "read", index=1, id="y")],
                [call(B[4:], "read", index=1, id="y")],
            ],
            id="name and id again",
        ),
        pytest.param(
            [
                [call("", "read", index=0, id="1")],
                [call(A[:4], "read", index=0, id="2")],
                [call(A[4:], "read", index=0, id="3")],
                [call(B, "read", index=1, id="4")],
            ],
            id="a new id in each piece",
        ),
        pytest.param(
            [[call(A[:4], "read", id="x")], [call(A[4:])], [call(B[:4], "read", id="y")], [call(B[4:])]],
            id="no index, in pieces",
        ),
    ],
)
def test_two_calls_are_two_calls_however_they_are_cut(deltas: list[list[dict[str, Any]]]) -> None:
    reply = read(stream(*({"tool_calls": calls} for calls in deltas)))
    assert [(one.name, one.arguments) for one in reply.calls] == [("read", A), ("read", B)]
    assert reply.finish == "calls"


def test_arguments_sent_as_an_object_become_text() -> None:
    delta = {"tool_calls": [{"function": {"name": "read", "arguments": {"path": "a"}}}]}
    assert json.loads(read(stream(delta)).calls[0].arguments) == {"path": "a"}


def test_finish_stop_with_calls_means_calls() -> None:
    delta = {"tool_calls": [call(A, "read", index=0, id="x")]}
    assert read(stream(delta, finish="stop")).finish == "calls"


def test_calls_of_a_filtered_answer_are_dropped() -> None:
    delta = {"content": "part", "tool_calls": [call(A, "read", index=0, id="x")]}
    reply = read(stream(delta, finish="content_filter"))
    assert (reply.finish, reply.text, reply.calls) == ("filtered", "part", ())


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_cuts_inside_characters_lines_and_surrogate_pairs_change_nothing(size: int) -> None:
    text = "a\u2028b\x85c 😀 \ud83d"
    halves = [{"content": text[:6]}, {"content": "\ud83d"}, {"content": "\ude00 end\x00"}]
    body = stream(*halves, finish="stop").replace(b"\n\n", b"\r\n\r\n")
    assert read(body, size).text == "a\u2028b\x85c \U0001f600 end\ufffd"


def test_reasoning_parts_of_a_content_list_stay_out_of_the_text() -> None:
    parts = [{"type": "thinking", "text": "hm", "thinking": []}, {"type": "text", "text": "hello"}]
    reply = read(stream({"content": parts, "reasoning_content": "hm", "reasoning": "hm"}, finish="stop"))
    assert reply.text == "hello"


def test_the_last_usage_block_counts() -> None:
    counts = b"".join(
        b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":"?"}}\n\n' % n for n in (1, 2)
    )
    reply = read(counts + b'data: {"choices":[],"usage":null}\n\n' + stream({"content": "x"}, finish="stop"))
    assert reply.usage.model_dump() == {"input_tokens": 2, "output_tokens": None, "cached_tokens": None}


@requirement("P10")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"<html>gateway</html>",
        b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: {"cho',
        b"data: [1]\n\n",
        b"[]",
        b'{"status":"ok"}',
        b'{"choices":[{"message":{"content":"x',
        b"data: " + b"[" * 100_000 + b"\n\n",
    ],
)
def test_what_is_no_whole_chat_completion_is_unavailable(body: bytes) -> None:
    with pytest.raises(ModelUnavailable):
        read(body)


@pytest.mark.parametrize(
    "choices", [None, {}, [None], [{}], [{"delta": "x"}], [{"delta": {"tool_calls": [{"function": 1}]}}]]
)
def test_chunks_of_a_strange_shape_are_read_as_far_as_they_go(choices: object) -> None:
    body = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps({"choices": choices}).encode()
    assert read(body).text == ""
