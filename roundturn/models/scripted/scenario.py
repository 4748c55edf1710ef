"""The scenario file: what the scripted model says, step by step, and how it misbehaves."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from roundturn.errors import ConfigurationError

HeaderValue = Annotated[str, Field(pattern=r"^[^\r\n]*$")]


class Strict(BaseModel, extra="forbid", frozen=True):
    """Unknown keys are refused: a misspelt fault that never happens would make a test pass for nothing."""


class StatusFault(Strict):
    kind: Literal["status"]
    times: int = Field(default=1, ge=1)
    status: int = Field(ge=300, le=599)
    headers: dict[HeaderValue, HeaderValue] = {}
    message: str = "The scripted model was told to fail."
    type: str = "scripted_error"
    code: str | None = None


class StallFault(Strict):
    """Silence before the headers (`stall`) or in the middle of the body (`stall_mid`), then the rest."""

    kind: Literal["stall", "stall_mid"]
    times: int = Field(default=1, ge=1)
    seconds: float = Field(ge=0)


class CloseFault(Strict):
    """The connection ends in the middle of the body; `clean` with a well-formed end of the HTTP message.

    `after`: how many pieces are sent before; None is about half, never as far as the finish.
    """

    kind: Literal["close_mid"]
    times: int = Field(default=1, ge=1)
    clean: bool = False
    after: int | None = Field(default=None, ge=1)


class LengthFault(Strict):
    """`cut`: characters kept of the last call's arguments, or of the text without calls; None keeps half."""

    kind: Literal["length"]
    times: int = Field(default=1, ge=1)
    cut: int | None = Field(default=None, ge=0)


class RefusalFault(Strict):
    kind: Literal["refusal"]
    times: int = Field(default=1, ge=1)
    text: str


class RawFault(Strict):
    """This body, whatever was asked: for endpoints that keep the format in their own way."""

    kind: Literal["raw"]
    times: int = Field(default=1, ge=1)
    body: str
    content_type: HeaderValue = "text/event-stream"


class PlainFault(Strict):
    kind: Literal["no_finish", "empty", "null_message", "malformed_json", "hold"]
    times: int = Field(default=1, ge=1)


Fault = Annotated[
    StatusFault | StallFault | CloseFault | LengthFault | RefusalFault | RawFault | PlainFault,
    Field(discriminator="kind"),
]


class ScriptedCall(Strict):
    """`id` absent: a unique one is made; given: sent as it is, and null is left out."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None


class Step(Strict):
    """One answer. `usage` absent: counted; given: sent as it is, and null sends none.

    The faults happen one after the other: the first to the first `times` requests that reach this step of
    one conversation, the second to the next, and so on; then the step is answered well.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: dict[str, Any] | None = None
    faults: tuple[Fault, ...] = ()


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern.removeprefix("re:") if pattern.startswith("re:") else "")
    except re.error as fault:
        raise ValueError(f"is not a regular expression: {fault}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class Scenario(Strict):
    """`match`: a substring of the user message, or a regular expression after `re:`.

    `also`: each of these is in that message or in an earlier one of the user's: what has to have come before.
    """

    name: str = Field(min_length=1)
    match: Pattern
    also: tuple[Pattern, ...] = ()
    steps: tuple[Step, ...] = Field(min_length=1)

    def search(self, text: str, earlier: Sequence[str] = ()) -> re.Match[str] | None:
        if not all(any(_search(pattern, said) for said in (text, *earlier)) for pattern in self.also):
            return None
        return _search(self.match, text)


def _search(pattern: str, text: str) -> re.Match[str] | None:
    if pattern.startswith("re:"):
        return re.search(pattern.removeprefix("re:"), text)
    return re.search(re.escape(pattern), text)


class ScenarioFile(Strict):
    scenarios: tuple[Scenario, ...]

    @model_validator(mode="after")
    def _names_are_unique(self) -> "ScenarioFile":
        names = [scenario.name for scenario in self.scenarios]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ValueError(f"scenario names are given twice: {', '.join(sorted(repeated))}")
        return self


def read_scenarios(text: str | bytes, source: str) -> tuple[Scenario, ...]:
    """Raises `ConfigurationError` naming `source` and each place that is wrong."""
    try:
        return ScenarioFile.model_validate(json.loads(text)).scenarios
    except ValidationError as fault:
        faults = [f"{_place(error['loc'])}: {error['msg']}" for error in fault.errors(include_url=False)]
        raise ConfigurationError(f"{source}: {'; '.join(faults)}") from None
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno} column {fault.colno}"
        raise ConfigurationError(f"{source}: {place}: {fault.msg}") from None
    except UnicodeDecodeError as fault:
        raise ConfigurationError(f"{source}: byte {fault.start}: is not UTF-8") from None


def _place(path: Iterable[str | int]) -> str:
    place = ""
    for part in path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    return place.removeprefix(".") or "(the whole file)"
