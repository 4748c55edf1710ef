"""The checks of the real chat-completions endpoint, so that a history it would refuse is refused here too."""

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

# https://platform.openai.com/docs/api-reference/chat/create and the endpoint's own messages
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_CALL_ID = 40
ROLES = ("system", "assistant", "user", "function", "tool", "developer")


class Refusal(Exception):  # noqa: N818 - what the endpoint answers, not a fault of this program
    """An answer that says no, with OpenAI's error body."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, "invalid_request_error", param, code)


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def check_credentials(authorization: str) -> None:
    """Raises `Refusal` (401). Any key will do."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Refusal(
            "You didn't provide an API key. You need to provide your API key in an Authorization header "
            "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
            status=401,
        )


def check_request(raw: bytes) -> dict[str, Any]:
    """The request, when the real endpoint would take it. Raises `Refusal`."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refusal("We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise Refusal("The JSON body of your request must be an object.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refusal("you must provide a model parameter")
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Refusal(
            "Missing required parameter: 'messages'.", "messages", code="missing_required_parameter"
        )
    if not messages:
        _refuse_length("messages", "empty array. Expected an array", "an empty array", "empty_array")
    for position, message in enumerate(messages):
        _check_message(message, position)
    _check_pairing(messages)
    if "tools" in body:
        _check_tools(body["tools"])
    return body


def _check_message(message: Any, position: int) -> None:
    place = f"messages[{position}]"
    if not isinstance(message, dict):
        raise Refusal(f"Invalid type for '{place}': expected an object.", place, "invalid_type")
    role = message.get("role")
    if role not in ROLES:
        raise Refusal(
            f"Invalid value: '{role}'. Supported values are: {', '.join(repr(known) for known in ROLES)}.",
            f"{place}.role",
            "invalid_value",
        )
    calls = message.get("tool_calls")
    if role == "assistant" and calls is not None:
        _check_calls(calls, place)
    elif not isinstance(message.get("content"), str | list):
        got = "null" if message.get("content") is None else "something else"
        raise Refusal(
            f"Invalid value for 'content': expected a string, got {got}.", f"messages.[{position}].content"
        )
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        _refuse_missing(f"{place}.tool_call_id")


def _check_calls(calls: Any, message: str) -> None:
    if not isinstance(calls, list) or not calls:
        place = f"{message}.tool_calls"
        _refuse_length(place, "empty array. Expected an array", "an empty array", "empty_array")
    for index, call in enumerate(calls):
        place = f"{message}.tool_calls[{index}]"
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            _refuse_missing(f"{place}.function")
        if call.get("type") != "function":
            _refuse_missing(f"{place}.type")
        _check_call_id(call.get("id"), f"{place}.id")
        _check_name(call["function"].get("name"), f"{place}.function.name")
        _check_arguments(call["function"].get("arguments"), f"{place}.function.arguments")
    ids = [call["id"] for call in calls]
    for repeated in ids:
        if ids.count(repeated) > 1:
            raise Refusal(
                f"Duplicate value for 'tool_call_id' of '{repeated}' in {message}.", f"{message}.tool_calls"
            )


def _check_call_id(value: Any, place: str) -> None:
    if not isinstance(value, str):
        _refuse_missing(place)
    if not value:
        _refuse_length(place, "empty string. Expected a string", "an empty string", "empty_string")
    if len(value) > MAX_CALL_ID:
        raise Refusal(
            f"Invalid '{place}': string too long. Expected a string with maximum length {MAX_CALL_ID}, "
            f"but got a string with length {len(value)} instead.",
            place,
            "string_above_max_length",
        )


def _check_arguments(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise Refusal(
            f"Invalid type for '{place}': expected a string, but got something else instead.",
            place,
            "invalid_type",
        )
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        raise Refusal(f"Invalid '{place}': string is not valid JSON.", place, "invalid_value") from None


def _check_pairing(messages: Sequence[dict[str, Any]]) -> None:
    """Every call has exactly one result, directly after the message that asked for it."""
    asked: set[str] = set()
    missing: list[str] = []
    for position, message in enumerate(messages):
        if message["role"] != "tool":
            _refuse_unanswered(missing, position)
            missing = [call["id"] for call in message.get("tool_calls") or ()]
            asked = set(missing)
            continue
        answered = message["tool_call_id"]
        if answered not in asked:
            raise Refusal(
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                f"with 'tool_calls'. The tool_call_id '{answered}' was not asked for.",
                f"messages.[{position}].role",
            )
        if answered not in missing:
            raise Refusal(
                f"Duplicate value for 'tool_call_id' of '{answered}' in message[{position}].",
                f"messages.[{position}].tool_call_id",
            )
        missing.remove(answered)
    _refuse_unanswered(missing, len(messages))


def _refuse_unanswered(missing: Sequence[str], position: int) -> None:
    if missing:
        raise Refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(missing)}",
            f"messages.[{position}].role",
        )


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list) or not tools:
        _refuse_length("tools", "empty array. Expected an array", "an empty array", "empty_array")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        if not isinstance(tool, dict) or tool.get("type") != "function":
            _refuse_missing(f"{place}.type")
        function = tool.get("function")
        if not isinstance(function, dict):
            _refuse_missing(f"{place}.function")
        _check_name(function.get("name"), f"{place}.function.name")
        if function["name"] in names:
            raise Refusal(f"Tool names must be unique, '{function['name']}' is given twice.", "tools")
        names.add(function["name"])
        if "parameters" in function:
            _check_parameters(function["parameters"], function["name"], place)


def _check_name(name: Any, place: str) -> None:
    if not isinstance(name, str):
        _refuse_missing(place)
    if not TOOL_NAME.fullmatch(name):
        raise Refusal(
            f"Invalid '{place}': string does not match pattern. Expected a string that matches the pattern "
            f"'^{TOOL_NAME.pattern}$'.",
            place,
            "invalid_value",
        )


def _check_parameters(schema: Any, name: str, place: str) -> None:
    kind = schema.get("type") if isinstance(schema, dict) else type(schema).__name__
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if kind != "object" or not isinstance(properties, dict):
        raise Refusal(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{kind}\"'.",
            f"{place}.function.parameters",
            "invalid_function_parameters",
        )


def _refuse_missing(place: str) -> NoReturn:
    raise Refusal(f"Missing required parameter: '{place}'.", place, "missing_required_parameter")


def _refuse_length(place: str, expected: str, got: str, code: str) -> NoReturn:
    raise Refusal(f"Invalid '{place}': {expected} with minimum length 1, but got {got} instead.", place, code)
