"""The scripted model over real HTTP: what it says, what it refuses, and how it misbehaves."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.requirements import requirement
from tests.scripted_server import ROOT, ScriptedServer, scripted_server, start_scripted_server

USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


def assistant(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "read", "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(of: str, content: Any = "fine") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": of, "content": content}


@pytest.fixture
async def http(server: ScriptedServer) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": "Bearer key"}
    async with httpx2.AsyncClient(base_url=server.base_url, headers=headers, timeout=30) as client:
        yield client


async def post(http: httpx2.AsyncClient, *messages: dict[str, Any], **options: Any) -> httpx2.Response:
    return await http.post("/chat/completions", json={"model": "m", "messages": messages, **options})


async def answer(http: httpx2.AsyncClient, *messages: dict[str, Any]) -> dict[str, Any]:
    response = await post(http, *messages)
    assert response.status_code == 200, response.text
    message: dict[str, Any] = response.json()["choices"][0]["message"]
    return message


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


# What it says


async def test_it_is_plainly_labelled(http: httpx2.AsyncClient) -> None:
    response = await post(http, USER)
    assert response.headers["x-roundturn-scripted"] == "1"
    body = response.json()
    assert (body["model"], body["system_fingerprint"]) == ("m", "scripted")
    assert body["choices"][0]["message"]["content"] == "[scripted model] You said: hello"


async def test_the_models_are_listed(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/models")).json()["data"][0]["id"] == "scripted"


async def test_steps_follow_the_number_of_assistant_messages_and_see_the_results(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    steps = [
        {"calls": [{"name": "read", "arguments": {"path": "{{match:1}}", "deep": [{"n": 1}]}}] * 2},
        {"text": "first {{result:0}}, all {{results}}, asked {{user}}{{result:9}}"},
    ]
    match = "re:" + name.replace("<", "<*") + r" (\w+)"
    await server.add([{"name": name, "match": match, "steps": steps}])
    start = user(f"{name} notes")
    first = await answer(http, start)
    arguments = [json.loads(call["function"]["arguments"]) for call in first["tool_calls"]]
    assert arguments == [{"path": "notes", "deep": [{"n": 1}]}] * 2
    one, two = (call["id"] for call in first["tool_calls"])
    assert one != two
    assert await answer(http, start) == first, "a retry gets the same answer"
    history = (start, first, result(one, "A"), result(two, "B"), user("a later note"))
    last = await answer(http, *history)
    assert last["content"] == f"first A, all A\nB, asked {name} notes"
    past = await answer(http, *history, last, user("another note"))
    assert past["content"] == f"first , all , asked {name} notes"
    seen = [(one["scenario"], one["step"]) for one in await server.requests(name)]
    assert seen == [(name, 0), (name, 0), (name, 1), (name, 2)]


async def test_what_has_to_have_come_before_is_looked_for_in_earlier_messages(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    both = {"name": name, "match": name, "also": ["one", "re:tw[o]"], "steps": [{"text": "both"}]}
    await server.add([both, {"name": f"{name} alone", "match": name, "steps": [{"text": "not yet"}]}])
    first = user(f"{name}: one")
    not_yet = await answer(http, first)
    assert not_yet["content"] == "not yet"
    assert (await answer(http, first, not_yet, user(f"{name}: two")))["content"] == "both"
    assert (await answer(http, user(f"{name}: two, one")))["content"] == "both"
    other = {"role": "assistant", "content": "two"}
    assert (await answer(http, first, other, user(f"{name}: three")))["content"] == "not yet"


async def test_past_a_last_step_with_calls_it_is_done(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    await server.add([{"name": name, "match": name, "steps": [{"calls": [{"name": "read"}]}]}])
    assert (await answer(http, user(name), assistant("a"), result("a")))["content"] == "done"


async def test_a_stream_comes_in_pieces_and_ends_with_usage_and_done(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    step = {"text": "a long answer", "calls": [{"name": "read", "arguments": {"path": "a"}}]}
    await server.add([{"name": name, "match": name, "steps": [step]}])
    response = await post(http, user(name), stream=True, stream_options={"include_usage": True})
    *events, done = [line.removeprefix("data: ") for line in response.text.split("\n") if line]
    assert done == "[DONE]"
    *chunks, usage = [json.loads(event) for event in events]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] > 0
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    texts = [delta["content"] for delta in deltas if delta.get("content")]
    pieces = [delta["tool_calls"][0]["function"]["arguments"] for delta in deltas if "tool_calls" in delta]
    assert len(texts) > 1
    assert "".join(texts) == "a long answer"
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == {"path": "a"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    unasked = await post(http, user(name), stream=True)
    assert "usage" not in unasked.text


async def test_a_directive_generates_steps_for_load_tests(http: httpx2.AsyncClient) -> None:
    start = user("please\nscript: steps=2 fanout=3 tool=echo size=4\nthanks")
    first = await answer(http, start)
    calls = [call["function"] for call in first["tool_calls"]]
    assert {call["name"] for call in calls} == {"echo"}
    assert [json.loads(call["arguments"]) for call in calls] == [{"i": i, "data": "xxxx"} for i in range(3)]
    results = [result(call["id"]) for call in first["tool_calls"]]
    second = await answer(http, start, first, *results)
    assert json.loads(second["tool_calls"][0]["function"]["arguments"])["i"] == 3
    more = [result(call["id"]) for call in second["tool_calls"]]
    assert (await answer(http, start, first, *results, second, *more))["content"] == "done"


async def test_a_directive_may_bring_its_arguments(http: httpx2.AsyncClient) -> None:
    said = await answer(http, user('script: tool=read args={"path": "a {{i}}.txt"}'))
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"path": "a 0.txt"}


@pytest.mark.parametrize("options", ["steps=two tool=a", "fanout=5000 tool=a", "steps=2", "tool=a args={x}"])
async def test_a_directive_that_cannot_be_followed_is_refused(http: httpx2.AsyncClient, options: str) -> None:
    response = await post(http, user(f"script: {options}"))
    assert response.status_code == 400
    assert "script:" in response.json()["error"]["message"]


async def test_the_word_script_in_plain_talk_is_no_directive(http: httpx2.AsyncClient) -> None:
    assert "You said" in (await answer(http, user("write a script: it should run")))["content"]


# What it refuses


@requirement("P01", "P30")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": [USER, result("a")]}, "must be a response to a preceeding message"),
        ({"messages": [USER, assistant("a"), result("b")]}, "must be a response to a preceeding message"),
        ({"messages": [USER, assistant("a"), result("a"), USER, result("a")]}, "must be a response"),
        ({"messages": [USER, assistant("a", "b"), result("a"), USER]}, "did not have response messages: b"),
        ({"messages": [USER, assistant("a")]}, "did not have response messages: a"),
        ({"messages": [USER, assistant("a", "a"), result("a")]}, "Duplicate value for 'tool_call_id'"),
        ({"messages": [USER, assistant("a"), result("a"), result("a")]}, "Duplicate value"),
        ({"messages": [USER, assistant(""), result("")]}, "empty string"),
        ({"messages": [USER, assistant("a" * 41), result("a" * 41)]}, "maximum length 40"),
        ({"messages": [USER, assistant("a", arguments='{"x'), result("a")]}, "not valid JSON"),
        ({"messages": [USER, {**assistant("a"), "tool_calls": []}]}, "empty array"),
        ({"messages": [{"role": "assistant", "content": None}]}, "expected a string, got null"),
        ({"messages": [user(None)]}, "expected a string, got null"),  # type: ignore[arg-type]
        ({"messages": [USER, assistant("a"), result("a", None)]}, "expected a string, got null"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "Supported values are"),
        ({"messages": []}, "empty array"),
        ({"messages": None}, "Missing required parameter: 'messages'"),
        ({"model": ""}, "you must provide a model parameter"),
        ({"tools": []}, "empty array"),
        ({"tools": [TOOL, TOOL]}, "unique"),
        ({"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "does not match pattern"),
        ({"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, "does not match pattern"),
        ({"tools": [{"type": "function", "function": {"name": "日本"}}]}, "does not match pattern"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]}, "JSON Schema"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]}, "JSON Schema"),
    ],
)
async def test_a_history_the_real_endpoint_refuses_is_refused(
    http: httpx2.AsyncClient, change: dict[str, Any], message: str
) -> None:
    response = await http.post("/chat/completions", json={"model": "m", "messages": [USER], **change})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]


async def test_a_body_that_is_not_json_is_refused(http: httpx2.AsyncClient) -> None:
    response = await http.post("/chat/completions", content=b"{not json")
    assert response.status_code == 400
    assert "could not parse" in response.json()["error"]["message"]


async def test_a_request_without_a_key_is_refused(http: httpx2.AsyncClient) -> None:
    response = await http.get("/models", headers={"authorization": "Basic x"})
    assert response.status_code == 401
    response = await http.post("/chat/completions", headers={"authorization": ""}, json={})
    assert response.status_code == 401


# How it misbehaves


async def test_faults_happen_one_after_the_other_in_each_conversation(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    slow = {"kind": "status", "status": 429, "headers": {"retry-after": "2"}, "code": "slow", "times": 2}
    step = {"text": "well", "faults": [slow, {"kind": "status", "status": 500}]}
    await server.add([{"name": name, "match": name, "steps": [step]}])
    first = [await post(http, user(name)) for _ in range(4)]
    assert [response.status_code for response in first] == [429, 429, 500, 200]
    assert first[0].headers["retry-after"] == "2"
    assert first[0].json()["error"]["code"] == "slow"
    other = await post(http, {"role": "system", "content": "another session"}, user(name))
    assert other.status_code == 429


async def test_a_held_call_waits_for_its_release(name: str) -> None:
    scenario = {"name": name, "match": name, "steps": [{"text": "well", "faults": [{"kind": "hold"}]}]}
    async with scripted_server([scenario]) as server:
        headers = {"authorization": "Bearer key"}
        async with httpx2.AsyncClient(base_url=server.base_url, headers=headers, timeout=30) as http:
            call = asyncio.create_task(answer(http, user(name)))
            await server.wait(held=1)
            (held,) = await server.requests()
            assert (held["state"], held["fault"], held["status"]) == ("held", "hold", None)
            assert await server.release() == 1
            assert (await call)["content"] == "well"
            stats = await server.wait(answered=1)
            assert stats["held"] == 0
            assert stats["scenarios"] == {name: 1}


async def test_a_stall_in_mid_stream_goes_on_after_its_time(
    server: ScriptedServer, http: httpx2.AsyncClient, name: str
) -> None:
    step = {"text": "well", "faults": [{"kind": "stall_mid", "seconds": 0.01}]}
    await server.add([{"name": name, "match": name, "steps": [step]}])
    assert (await post(http, user(name), stream=True)).text.endswith("data: [DONE]\n\n")


# The process


async def test_the_requests_are_kept_as_they_came(http: httpx2.AsyncClient, server: ScriptedServer) -> None:
    await http.post("/chat/completions", content=b'{"model": "first", "messages": 1}')
    await http.post("/chat/completions", content=b"\xff{")
    readable, unreadable = (await server.requests())[-2:]
    assert readable["body"] == {"model": "first", "messages": 1}
    assert unreadable["body"] == "\ufffd{"
    assert (readable["status"], readable["state"]) == (400, "answered")


async def test_an_unknown_route_is_not_found(http: httpx2.AsyncClient) -> None:
    response = await http.post("/responses", json={})
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "Invalid URL (POST /v1/responses)"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, 431),
    ],
)
async def test_a_request_that_cannot_be_read_ends_the_connection(
    server: ScriptedServer, sent: bytes, status: int
) -> None:
    address = httpx2.URL(server.base_url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(sent)
    assert f"HTTP/1.1 {status} ".encode() in await reader.readline()
    writer.close()


async def test_requests_sent_ahead_are_answered_in_turn(server: ScriptedServer) -> None:
    address = httpx2.URL(server.base_url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /nowhere HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert (await reader.read()).count(b"HTTP/1.1 404") == 2
    writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_quietly_when_told_to(number: signal.Signals) -> None:
    process = start_scripted_server().process
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"scenarios": [', "line 1 column 16"),
        ('{"scenarios": 1}', "scenarios: "),
        ('{"scenarios": [{"name": "a", "match": "a", "steps": []}]}', "scenarios[0].steps: "),
        ('{"scenarios": [{"name": "a", "match": "re:(", "steps": [{}]}]}', "scenarios[0].match: "),
        (
            '{"scenarios": [{"name": "a", "match": "a", "also": ["re:("], "steps": [{}]}]}',
            "scenarios[0].also[0]: ",
        ),
        (
            '{"scenarios": [{"name": "a", "match": "a", "steps": [{"txt": "x"}]}]}',
            "scenarios[0].steps[0].txt",
        ),
        (
            '{"scenarios": [{"name": "a", "match": "a", "steps": [{"faults": [{"kind": "odd"}]}]}]}',
            "scenarios[0].steps[0].faults[0]",
        ),
        ('{"scenarios": [%s, %s]}' % (('{"name": "a", "match": "a", "steps": [{}]}',) * 2), "given twice: a"),
    ],
)
def test_a_bad_scenario_file_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    script = tmp_path / "bad.json"
    script.write_text(text)
    command = [sys.executable, "-m", "roundturn.models.scripted", "--port", "0", "--scenario", str(script)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"error: {script}: ")
    assert place in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_bad_scenarios_are_refused_while_it_runs(server: ScriptedServer) -> None:
    address = server.base_url.removesuffix("/v1") + "/scripted/scenarios"
    async with httpx2.AsyncClient() as client:
        response = await client.post(address, json={"scenarios": [{"name": "a"}]})
    assert response.status_code == 400
    assert "scenarios[0].match: Field required" in response.json()["error"]["message"]
