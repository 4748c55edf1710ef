"""What goes to the provider is well-formed, whatever the history holds and whichever results are missing."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn import ids
from roundturn.context import (
    BrokenPairing,
    check_pairing,
    encoded_messages,
    entry_messages,
    request_messages,
    wire_arguments,
    wire_name,
)
from roundturn.message import AskedCall, Entry
from tests.requirements import requirement

SESSION = "s_" + "a" * 26
text = st.text(max_size=12)
asked = st.builds(
    AskedCall,
    provider_id=st.sampled_from(["", "call_1", "call_1", "undefined"]),
    name=st.text(max_size=70),
    arguments=st.sampled_from(["{}", '{"a":1}', "", "[]", '{"a":', "null", "{" * 3_000]),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Entry], dict[str, str]]:
    """Turns of steps with any calls, and any subset of their results, in any order."""
    entries: list[Entry] = []
    results: dict[str, str] = {}
    for n in sorted(draw(st.sets(st.integers(1, 40), max_size=4))):
        turn = ids.turn_id(SESSION, n)
        entries.append(Entry(seq=len(entries) + 1, role="user", turn=turn, step=0, text=draw(text)))
        for step in range(draw(st.integers(0, 3))):
            calls = tuple(draw(st.lists(asked, max_size=4)))
            entries.append(
                Entry(
                    seq=len(entries) + 1, role="assistant", turn=turn, step=step, text=draw(text), calls=calls
                )
            )
            for index in range(len(calls)):
                if draw(st.booleans()):
                    results[ids.call_id(turn, step, index)] = draw(text)
    return entries, results


def strictly_valid(messages: list[dict[str, Any]]) -> None:
    """As the strictest endpoint would judge a request; shares nothing with the code."""
    assert messages[0]["role"] == "system"
    ever: set[str] = set()
    place = 1
    while place < len(messages):
        message = messages[place]
        place += 1
        assert message["role"] in ("user", "assistant"), "a tool message may only follow its call"
        if message["role"] == "user":
            assert message.keys() == {"role", "content"}
            assert isinstance(message["content"], str)
            continue
        calls = message.get("tool_calls")
        if calls is None:
            assert isinstance(message["content"], str)
            continue
        assert calls, "an empty list of calls is refused"
        assert message["content"] is None or message["content"]
        for call in calls:
            assert call["type"] == "function"
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["id"])
            assert call["id"] not in ever, "ids are unique in the whole request"
            ever.add(call["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
        answers = messages[place : place + len(calls)]
        place += len(calls)
        assert [answer.get("tool_call_id") for answer in answers] == [call["id"] for call in calls]
        for answer in answers:
            assert answer["role"] == "tool"
            assert isinstance(answer["content"], str)


@requirement("P84", "P91", "P01", "P03")
@given(histories())
def test_any_history_with_any_results_is_a_valid_request(history: tuple[list[Entry], dict[str, str]]) -> None:
    entries, results = history
    messages = json.loads(request_messages("prompt", encoded_messages(entries, results)))
    strictly_valid(messages)
    said = [message["content"] for message in messages if message["role"] == "user"]
    assert said == [entry.text for entry in entries if entry.role != "assistant"]
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    wanted = [
        results.get(ids.call_id(entry.turn, entry.step, index), "Interrupted; it may have run.")
        for entry in entries
        for index in range(len(entry.calls))
    ]
    assert answers == wanted


@requirement("P92")
@given(histories())
def test_a_longer_history_only_appends(history: Any) -> None:
    entries, results = history
    whole = encoded_messages(entries, results)
    for kept in range(len(entries) + 1):
        part = encoded_messages(entries[:kept], results)
        assert part + encoded_messages(entries[kept:], results) == whole


def assistant(*calls: AskedCall, said: str = "") -> Entry:
    return Entry(seq=1, role="assistant", turn=f"{SESSION}/7", step=2, text=said, calls=calls)


def call(arguments: str = "{}", name: str = "tool", provider_id: str = "") -> AskedCall:
    return AskedCall(provider_id=provider_id, name=name, arguments=arguments)


@requirement("P01", "P03")
@pytest.mark.parametrize("provider_id", ["call_1", "", "undefined"])
def test_calls_with_one_provider_id_keep_their_own_results(provider_id: str) -> None:
    entry = assistant(
        call('{"path":"A"}', provider_id=provider_id), call('{"path":"B"}', provider_id=provider_id)
    )
    results = {f"{SESSION}/7.2.0": "of A", f"{SESSION}/7.2.1": "of B"}
    message, *answers = entry_messages(entry, results)
    assert [each["id"] for each in message["tool_calls"]] == ["call_7_2_0", "call_7_2_1"]
    assert [(each["tool_call_id"], each["content"]) for each in answers] == [
        ("call_7_2_0", "of A"),
        ("call_7_2_1", "of B"),
    ]


@requirement("P91")
def test_a_missing_result_is_said_to_be_interrupted() -> None:
    assert entry_messages(assistant(call()), {})[1]["content"] == "Interrupted; it may have run."


@requirement("P12")
@pytest.mark.parametrize(
    ("name", "wire"), [("a b\x00", "a_b_"), ("", "unnamed"), ("ü" * 10_000, "_" * 64), ("ok-1_A", "ok-1_A")]
)
def test_an_invented_name_goes_back_in_an_acceptable_form(name: str, wire: str) -> None:
    assert wire_name(name) == wire


@requirement("P04", "P06")
def test_unreadable_arguments_go_back_as_bounded_json() -> None:
    cut_off = '{"path":"a","content":"' + "x" * 10_000
    assert json.loads(wire_arguments(call(cut_off))) == {"unreadable": cut_off[:800]}


def test_readable_arguments_go_back_byte_by_byte() -> None:
    arguments = '{ "b": 1.0, "a": "\\u00fc" }'
    assert wire_arguments(call(arguments)) == arguments


def message(role: str, *calls: str, of: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"role": role, "content": "x"}
    if calls:
        made["tool_calls"] = [{"id": each} for each in calls]
    return {**made, "tool_call_id": of} if of else made


@requirement("P84")
@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([message("tool", of="a")], "message 0: a result without its call"),
        ([message("assistant", "a"), message("user")], "message 1: 1 calls before it have no result"),
        ([message("assistant", "a")], "the last 1 calls have no result"),
        ([message("assistant", "a", "a")], "two calls share an id"),
        ([message("assistant", "a", "b"), message("tool", of="b"), message("tool", of="a")], "message 1"),
        ([message("assistant", "a"), message("tool", of="a"), message("tool", of="a")], "message 2"),
    ],
)
def test_the_validator_at_the_exit_refuses_broken_pairs(messages: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(BrokenPairing, match=said):
        check_pairing(messages)


def test_the_validator_passes_whole_pairs() -> None:
    check_pairing([message("user"), message("assistant", "a"), message("tool", of="a"), message("assistant")])
