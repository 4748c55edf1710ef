"""What the model sees: the transcript and the ledger become one request in which every call has its one result."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from roundturn import ids
from roundturn.errors import RoundturnError
from roundturn.jsontext import NotJson, dump, parse_object
from roundturn.message import AskedCall, Entry

MALFORMED_SHOWN = 800  # characters of unreadable arguments that go back to the model (P06)


class BrokenPairing(RoundturnError):
    """A request would hold a call without its result or a result without its call: a defect of ours."""


def request_messages(prompt: str, encoded: bytes) -> bytes:
    """The messages of one request as a JSON array: the prompt, then what `encoded_messages` gave, in order."""
    system = dump({"role": "system", "content": prompt}).encode()
    return b"".join((b"[", system, encoded, b"]"))


def encoded_messages(entries: Sequence[Entry], results: Mapping[str, str]) -> bytes:
    """A part of a transcript for `request_messages`, each message behind a comma; whole entries, so that parts join.

    Raises `BrokenPairing`.
    """
    messages = transcript_messages(entries, results)
    check_pairing(messages)
    return b"".join(b"," + dump(message).encode() for message in messages)


def transcript_messages(entries: Sequence[Entry], results: Mapping[str, str]) -> list[dict[str, Any]]:
    """Entries in the wire shape; `results` maps call ids to what the model reads.

    A call without a result in a turn that is over was interrupted; the model is told so (P91).
    """
    return [message for entry in entries for message in entry_messages(entry, results)]


def entry_messages(entry: Entry, results: Mapping[str, str]) -> list[dict[str, Any]]:
    if entry.role != "assistant":
        return [{"role": "user", "content": entry.text}]
    message: dict[str, Any] = {"role": "assistant", "content": entry.text or None}
    if not entry.calls:
        return [{**message, "content": entry.text}]
    keys = [wire_id(entry, index) for index in range(len(entry.calls))]
    message["tool_calls"] = [
        {
            "id": key,
            "type": "function",
            "function": {"name": wire_name(call.name), "arguments": wire_arguments(call)},
        }
        for key, call in zip(keys, entry.calls, strict=True)
    ]
    answers = [
        {
            "role": "tool",
            "tool_call_id": key,
            "content": results.get(
                ids.call_id(entry.turn, entry.step, index), "Interrupted; it may have run."
            ),
        }
        for index, key in enumerate(keys)
    ]
    return [message, *answers]


def wire_id(entry: Entry, index: int) -> str:
    """Ours, from position: the provider's own may be missing, empty or given twice (P01, P03)."""
    number = entry.turn.rsplit("/", 1)[1]
    return f"call_{number}_{entry.step}_{index}"


def wire_name(name: str) -> str:
    """An invented name goes back in a form that the endpoint accepts (P12)."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def wire_arguments(call: AskedCall) -> str:
    """Valid JSON whatever the model wrote: one broken message must not poison every later request (P04)."""
    try:
        parse_object(call.arguments)
    except NotJson:
        return dump({"unreadable": call.arguments[:MALFORMED_SHOWN]})
    return call.arguments


def check_pairing(messages: Sequence[Mapping[str, Any]]) -> None:
    """The one validator at the exit to the provider (P84). Raises `BrokenPairing`."""
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if not open_calls or open_calls.pop(0) != message["tool_call_id"]:
                raise BrokenPairing(f"message {place}: a result without its call")
            continue
        if open_calls:
            raise BrokenPairing(f"message {place}: {len(open_calls)} calls before it have no result")
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(open_calls)) != len(open_calls):
            raise BrokenPairing(f"message {place}: two calls share an id")
    if open_calls:
        raise BrokenPairing(f"the last {len(open_calls)} calls have no result")
