"""The adapter against the scripted model over real HTTP: replies, faults and what they become."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from roundturn.errors import ConfigurationError, ModelRefused, ModelUnavailable
from roundturn.models.openai_chat import OpenAIChat
from tests.models.conftest import Say, ask
from tests.requirements import requirement
from tests.scripted_server import ScriptedServer, scripted_server

TWO_READS = [
    {"name": "read", "arguments": {"path": "a"}},
    {"name": "read", "arguments": {"path": "b"}},
]
CALLS = {"calls": TWO_READS}


@pytest.fixture
async def unstreamed(server: ScriptedServer) -> AsyncIterator[OpenAIChat]:
    adapter = OpenAIChat(server.base_url, "sk-test-1234", 20, stream=False)
    yield adapter
    await adapter.close()


def failing(**fault: Any) -> dict[str, Any]:
    return {"text": "well", "faults": [{"kind": "status", "times": 99, **fault}]}


def raw(body: str, content_type: str = "text/event-stream") -> dict[str, Any]:
    return {"text": "well", "faults": [{"kind": "raw", "body": body, "content_type": content_type}]}


# What a good answer becomes


async def test_streamed_text_arrives_whole_with_its_usage_and_model(say: Say) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    reply = await say({"text": 'häll\u2028o 😀 "world"\n', "usage": usage})
    assert reply.text == 'häll\u2028o 😀 "world"\n'
    assert (reply.finish, reply.model) == ("stop", "m")
    assert reply.usage.model_dump() == {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 5}


async def test_an_answer_without_usage_has_no_counts(say: Say) -> None:
    reply = await say({"text": "hello", "usage": None})
    assert reply.usage.model_dump() == {"input_tokens": None, "output_tokens": None, "cached_tokens": None}


async def test_tool_calls_arrive_in_order_with_whole_arguments(say: Say) -> None:
    reply = await say({"text": "let me look", **CALLS})
    assert reply.text == "let me look"
    assert reply.finish == "calls"
    assert [json.loads(call.arguments) for call in reply.calls] == [{"path": "a"}, {"path": "b"}]
    assert len({call.provider_id for call in reply.calls}) == 2


async def test_an_answer_that_is_not_streamed_becomes_the_same_reply(
    say: Say, unstreamed: OpenAIChat, server: ScriptedServer, name: str
) -> None:
    streamed = await say({"text": "let me look", "usage": {"prompt_tokens": 1}, **CALLS})
    whole = await say(by=unstreamed)
    assert whole == streamed
    bodies = [received["body"] for received in await server.requests(name)]
    assert [body["stream"] for body in bodies] == [True, False]


async def test_reasoning_never_enters_the_text(say: Say) -> None:
    assert (await say({"reasoning": "the user wants a greeting", "text": "hello"})).text == "hello"


async def test_a_json_body_in_answer_to_a_streaming_request_is_taken(say: Say) -> None:
    message = {"role": "assistant", "content": "whole"}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}, indent=1)
    reply = await say(raw(body, "application/json"))
    assert (reply.text, reply.finish) == ("whole", "stop")


async def test_connections_are_used_again_after_a_stream(server: ScriptedServer, chat: OpenAIChat) -> None:
    before = (await server.wait())["connections"]
    for _ in range(3):
        await chat.complete(ask("connection test"))
    after = (await server.wait())["connections"]
    assert after - before == 2, "one for all calls, one for the question itself"


async def test_the_request_carries_history_and_tools_untouched(
    server: ScriptedServer, chat: OpenAIChat, name: str
) -> None:
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    await server.add([{"name": name, "match": name, "steps": [{"text": "ok"}]}])
    await chat.complete(ask(name, tools=[tool]))
    (received,) = await server.requests(name)
    assert received["body"] == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": name}],
        "tools": [tool],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_an_empty_tool_list_is_left_out(server: ScriptedServer, say: Say, name: str) -> None:
    await say({"text": "ok"})
    (received,) = await server.requests(name)
    assert "tools" not in received["body"]


# Calls that providers get wrong


@requirement("P01")
async def test_two_calls_with_the_same_id_both_arrive(say: Say, unstreamed: OpenAIChat) -> None:
    calls = [{**call, "id": "call_1"} for call in TWO_READS]
    for reply in (await say({"calls": calls}), await say(by=unstreamed)):
        assert [call.provider_id for call in reply.calls] == ["call_1", "call_1"]
        assert [json.loads(call.arguments)["path"] for call in reply.calls] == ["a", "b"]


@requirement("P03")
@pytest.mark.parametrize("missing", [None, ""])
async def test_calls_without_an_id_arrive_with_an_empty_one(
    say: Say, unstreamed: OpenAIChat, missing: str | None
) -> None:
    calls = [{**call, "id": missing} for call in TWO_READS]
    for reply in (await say({"calls": calls}), await say(by=unstreamed)):
        assert [call.provider_id for call in reply.calls] == ["", ""]
        assert [json.loads(call.arguments)["path"] for call in reply.calls] == ["a", "b"]


@requirement("P04")
async def test_an_answer_cut_off_inside_a_call_says_so(say: Say, unstreamed: OpenAIChat) -> None:
    step = {**CALLS, "faults": [{"kind": "length", "cut": 6, "times": 2}]}
    for reply in (await say(step), await say(by=unstreamed)):
        assert reply.finish == "length"
        assert [call.arguments for call in reply.calls] == ['{"path": "a"}', '{"path']


# Nothing, or not the answer


@requirement("P09")
@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"text": "x", "faults": [{"kind": "empty", "times": 2}]}, ""),
        ({"text": "x", "faults": [{"kind": "null_message", "times": 2}]}, ""),
        ({"text": ""}, ""),
        ({"text": "x", "faults": [{"kind": "refusal", "text": "I will not.", "times": 2}]}, "I will not."),
    ],
)
async def test_an_empty_withheld_or_refused_answer_is_filtered(
    say: Say, unstreamed: OpenAIChat, step: dict[str, Any], text: str
) -> None:
    for reply in (await say(step), await say(by=unstreamed)):
        assert (reply.finish, reply.text, reply.calls) == ("filtered", text, ())


# Streams that end early


@requirement("P10")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("step", [{"text": "a long answer"}, CALLS, {"reasoning": "a long thought"}])
async def test_a_stream_that_ends_without_its_end_is_a_transport_error(
    say: Say, unstreamed: OpenAIChat, step: dict[str, Any], clean: bool
) -> None:
    broken = {**step, "faults": [{"kind": "close_mid", "clean": clean, "times": 2}]}
    with pytest.raises(ModelUnavailable):
        await say(broken)
    with pytest.raises(ModelUnavailable):
        await say(by=unstreamed)


@requirement("P10")
async def test_the_end_marker_is_enough_without_a_finish_reason(say: Say) -> None:
    reply = await say({"text": "all of it", "faults": [{"kind": "no_finish"}]})
    assert (reply.text, reply.finish) == ("all of it", "stop")


@requirement("P10")
async def test_a_finish_reason_is_enough_without_the_end_marker(say: Say) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "all"}, "finish_reason": "stop"}]}
    reply = await say(raw(f"data: {json.dumps(chunk)}\n\n"))
    assert (reply.text, reply.finish) == ("all", "stop")


@requirement("P10")
async def test_an_answer_whose_connection_breaks_after_its_finish_is_whole(say: Say) -> None:
    reply = await say({"text": "ok", "faults": [{"kind": "close_mid", "after": 4}]})
    assert (reply.text, reply.finish, reply.usage.input_tokens) == ("ok", "stop", None)


async def test_a_body_that_is_not_json_is_a_transport_error(say: Say, unstreamed: OpenAIChat) -> None:
    step = {"text": "x", "faults": [{"kind": "malformed_json", "times": 2}]}
    with pytest.raises(ModelUnavailable, match="JSON"):
        await say(step)
    with pytest.raises(ModelUnavailable):
        await say(by=unstreamed)


# Failures told apart


@requirement("P13")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "7200"}, 7200),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:03 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 3),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
async def test_retry_after_is_read_in_all_its_forms(
    say: Say, headers: dict[str, str], seconds: float | None
) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await say(failing(status=429, headers=headers))
    assert caught.value.retry_after == (None if seconds is None else timedelta(seconds=seconds))


@requirement("P13")
async def test_a_date_counts_from_now_when_the_response_has_none(say: Say) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    with pytest.raises(ModelUnavailable) as caught:
        await say(failing(status=503, headers={"retry-after": moment}))
    assert caught.value.retry_after is not None
    assert timedelta(seconds=30) < caught.value.retry_after <= timedelta(seconds=60)


@requirement("P14")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_one_attempt_is_one_request(say: Say, server: ScriptedServer, name: str, status: int) -> None:
    with pytest.raises(ModelUnavailable, match=str(status)):
        await say(failing(status=status))
    assert len(await server.requests(name)) == 1


@requirement("P16")
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 400, "code": "context_length_exceeded"}, "context_overflow"),
        (
            {"status": 400, "message": "This model's maximum context length is 8192 tokens."},
            "context_overflow",
        ),
        ({"status": 400}, "bad_request"),
        ({"status": 422}, "bad_request"),
        ({"status": 401}, "credentials"),
        ({"status": 403}, "credentials"),
        ({"status": 404}, "model_not_found"),
        ({"status": 402}, "quota"),
        ({"status": 429, "code": "insufficient_quota"}, "quota"),
    ],
)
async def test_what_will_not_pass_is_refused_by_kind(
    say: Say, server: ScriptedServer, name: str, fault: dict[str, Any], kind: str
) -> None:
    with pytest.raises(ModelRefused) as caught:
        await say(failing(**fault))
    assert caught.value.kind == kind
    assert len(await server.requests(name)) == 1


async def test_a_refused_key_comes_with_a_hint(say: Say) -> None:
    with pytest.raises(ModelRefused) as caught:
        await say(failing(status=401))
    assert "OPENAI_API_KEY" in caught.value.hint
    assert "OPENAI_BASE_URL" in caught.value.hint


async def test_the_providers_words_are_bounded_clean_and_without_the_key(say: Say) -> None:
    message = "bad key sk-test-1234\x00 " + "x" * 2_000
    with pytest.raises(ModelRefused) as caught:
        await say(failing(status=400, message=message))
    assert "sk-test-1234" not in caught.value.detail
    assert "bad key ***\ufffd xxx" in caught.value.detail
    assert len(caught.value.detail) < 900
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "no", "code": 402}, "quota"),
        ({"message": "no", "code": "context_length_exceeded"}, "context_overflow"),
        ({"message": "overloaded", "code": 503}, None),
        ("overloaded", None),
    ],
)
async def test_an_error_object_with_status_200_is_told_apart_too(
    say: Say, error: object, kind: str | None
) -> None:
    body = f": ping\n\ndata: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n"
    with pytest.raises(ModelRefused if kind else ModelUnavailable) as caught:
        await say(raw(body))
    assert getattr(caught.value, "kind", None) == kind


async def test_an_unreachable_endpoint_may_come_back() -> None:
    async with scripted_server() as gone:
        address = gone.base_url
    where = address.removeprefix("http://").removesuffix("/v1")
    adapter = OpenAIChat(address.replace("http://", "http://someone:hidden@") + "?sign=hidden", "key", 5)
    with pytest.raises(ModelUnavailable, match=f"the model endpoint {where} is not reachable") as caught:
        await adapter.complete(ask("hello"))
    assert "hidden" not in caught.value.detail
    await adapter.close()


@pytest.mark.parametrize(
    ("base_url", "where"),
    [("http://[::1]:1/v1", r"\[::1\]:1 "), ("https://127.0.0.1/v1", r"127\.0\.0\.1:443 ")],
)
async def test_an_address_is_named_as_it_is_reached(base_url: str, where: str) -> None:
    adapter = OpenAIChat(base_url, "key", 5)
    with pytest.raises(ModelUnavailable, match=f"the model endpoint {where}"):
        await adapter.complete(ask("hello"))
    await adapter.close()


@pytest.mark.parametrize("kind", ["stall", "stall_mid"])
async def test_a_silent_endpoint_is_given_up(server: ScriptedServer, say: Say, kind: str) -> None:
    hasty = OpenAIChat(server.base_url, "key", 0.2)
    with pytest.raises(ModelUnavailable, match="Timeout"):
        await say({"text": "a long answer", "faults": [{"kind": kind, "seconds": 60}]}, by=hasty)
    await hasty.close()


@pytest.mark.parametrize(
    ("url", "key"),
    [("localhost:80/v1", "key"), ("http://", "key"), ("http://a:b/v1", "key"), (None, " "), (None, "a\nb")],
)
def test_a_setting_that_no_request_can_be_made_with_is_refused(url: str | None, key: str) -> None:
    with pytest.raises(ConfigurationError):
        OpenAIChat(url, key, 5)


# Cancellation


@pytest.mark.parametrize("fault", [{"kind": "hold"}, {"kind": "stall_mid", "seconds": 60}])
async def test_a_cancelled_call_closes_its_stream(fault: dict[str, Any]) -> None:
    scenario = {"name": "slow", "match": "slow", "steps": [{"text": "a long answer", "faults": [fault]}]}
    async with scripted_server([scenario]) as server:
        adapter = OpenAIChat(server.base_url, "key", 60)
        call = asyncio.create_task(adapter.complete(ask("slow")))
        await server.wait(requests=1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.wait(left=1)
        await adapter.close()
