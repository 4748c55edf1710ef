"""Which step of which scenario answers a request, found from its messages alone."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roundturn.models.scripted.scenario import Scenario, ScriptedCall, Step

DEFAULT = "default"
DIRECTIVE = "directive"
MAX_CALLS = 1_000  # of one step of the directive
MAX_SIZE = 4 * 2**20  # characters of data in one call of the directive

_DIRECTIVE = re.compile(r"\bscript:[ \t]*(?P<options>(?:steps|fanout|tool|size|args)=[^\n]*)")
_ARGUMENTS = re.compile(r"(?:^|\s)args=(?=\{)")
_REFERENCE = re.compile(r"\[async_subagent_ref\] subagent_session_id=(\S+)")
_PLACEHOLDER = re.compile(r"\{\{(results|result|user|match|newest|subagent)(?::(\d+))?\}\}")


class DirectiveError(ValueError):
    """A `script:` line that cannot be followed; the text says why."""


@dataclass(frozen=True)
class Exchange:
    """`step` counts the assistant messages after the matching user message, so a retry gets the same answer.

    `key` names this step of this conversation: a digest of everything up to the user message.
    """

    scenario: str
    step: int
    key: str
    answer: Step
    user: str
    results: tuple[str, ...]
    groups: tuple[str, ...] = ()
    newest: str = ""  # user message: results of subagents come as one that no scenario matches
    subagents: tuple[str, ...] = ()  # sessions in the references since the matching message

    def fill(self, template: str) -> str:
        """Replaces the placeholders; one that refers to nothing becomes empty."""
        return _PLACEHOLDER.sub(self._value, template)

    def _value(self, placeholder: re.Match[str]) -> str:
        name, number = placeholder[1], int(placeholder[2] or 0)
        if name == "results":
            return "\n".join(self.results)
        if name == "user":
            return self.user
        if name == "newest":
            return self.newest
        values = {"result": self.results, "match": self.groups, "subagent": self.subagents}[name]
        return values[number] if number < len(values) else ""


def locate(messages: Sequence[dict[str, Any]], scenarios: Iterable[Scenario]) -> Exchange:
    """The newest user message that matches decides; of several scenarios, the first in the list.

    Raises `DirectiveError`.
    """
    known = tuple(scenarios)
    users = [position for position, message in enumerate(messages) if message["role"] == "user"]
    said = [text_of(messages[position].get("content")) for position in users]
    for number in reversed(range(len(users))):
        position, text = users[number], said[number]
        for scenario in known:
            if match := scenario.search(text, said[:number]):
                found = _exchange(messages, position, scenario.name)
                groups = (match[0], *(group or "" for group in match.groups()))
                return replace(found, answer=_step(scenario.steps, found.step), groups=groups)
        if directive := _DIRECTIVE.search(text):
            found = _exchange(messages, position, DIRECTIVE)
            return replace(found, answer=_generated(directive["options"], found.step))
    found = _exchange(messages, users[-1] if users else 0, DEFAULT)
    return replace(found, answer=Step(text="[scripted model] You said: {{user}}"))


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _exchange(messages: Sequence[dict[str, Any]], position: int, scenario: str) -> Exchange:
    later = messages[position + 1 :]
    step = sum(message["role"] == "assistant" for message in later)
    results: list[str] = []
    for message in later:
        if message["role"] == "assistant":
            results = []
        elif message["role"] == "tool":
            results.append(text_of(message.get("content")))
    told = "\n".join(text_of(message.get("content")) for message in later if message["role"] == "tool")
    seen = json.dumps([scenario, step, *messages[: position + 1]])
    return Exchange(
        scenario=scenario,
        step=step,
        key=hashlib.sha256(seen.encode()).hexdigest(),
        answer=Step(),
        user=text_of(messages[position].get("content")),
        results=tuple(results),
        newest=next((text_of(m.get("content")) for m in reversed(messages) if m["role"] == "user"), ""),
        subagents=tuple(_REFERENCE.findall(told)),
    )


def _step(steps: Sequence[Step], number: int) -> Step:
    """Past the last step: its text again if it was final, else plainly done."""
    if number < len(steps):
        return steps[number]
    last = steps[-1]
    return Step(text="done") if last.calls or not last.text else Step(text=last.text)


def _generated(options: str, number: int) -> Step:
    """`script: steps=K fanout=F tool=NAME size=B args={json}`; `{{i}}` in args is the number of the call."""
    arguments: Any = None
    if found := _ARGUMENTS.search(options):
        try:
            arguments, _ = json.JSONDecoder().raw_decode(options, found.end())
        except ValueError as fault:
            raise DirectiveError(f"script: args is not JSON: {fault}") from None
        options = options[: found.start()]
    words = dict(word.split("=", 1) for word in options.split() if "=" in word)
    steps, fanout = _number(words, "steps", 1_000_000), _number(words, "fanout", MAX_CALLS)
    size = _number(words, "size", MAX_SIZE, otherwise=0)
    if number >= steps:
        return Step(text="done")
    if not words.get("tool"):
        raise DirectiveError("script: needs tool=NAME")
    first = number * fanout
    calls = (_generated_call(words["tool"], first + index, size, arguments) for index in range(fanout))
    return Step(calls=tuple(calls))


def _generated_call(tool: str, i: int, size: int, arguments: dict[str, Any] | None) -> ScriptedCall:
    if arguments is None:
        return ScriptedCall(name=tool, arguments={"i": i, "data": "x" * size})
    return ScriptedCall(name=tool, arguments=json.dumps(arguments).replace("{{i}}", str(i)))


def _number(words: dict[str, str], name: str, limit: int, otherwise: int = 1) -> int:
    text = words.get(name, str(otherwise))
    if not (text.isascii() and text.isdigit() and int(text) <= limit):
        raise DirectiveError(f"script: {name}={text} is not a whole number up to {limit}")
    return int(text)
