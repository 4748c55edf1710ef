"""What a tool is: a name, a Pydantic input, a declared effect and one coroutine; nothing of policy or display."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from roundturn.errors import AuthorError

NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what model APIs accept (P30)
LONGEST_LIMIT_S = 7 * 24 * 3600


class Effect(StrEnum):
    """What running twice would do (design section 1, decision 5)."""

    PURE = "pure"  # reads only, repeatable
    KEYED = "keyed"  # changes something, repeatable with our idempotency key
    ONCE = "once"  # changes something, not repeatable


@dataclass(frozen=True)
class ToolSpec:
    """What rules, the workflow and the audit know of a tool without running it.

    `limit_s`: seconds one attempt may take. `brief`: under one second and cancellable, so that it may run
    beside the workflow as a local activity. `always_ask`: nothing can waive the person (design section 6).
    `directive`: it may ask the workflow for something.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    effect: Effect
    limit_s: float
    brief: bool
    always_ask: bool
    origin: str = "builtin"
    directive: bool = False


@dataclass(frozen=True)
class ToolContext:
    """What a running tool may know of its surroundings.

    `cwd`: the session's action directory, absolute. `idempotency_key`: the call id, the same over retries,
    approvals and restarts. `protected`: directories no tool may touch (X-12). `metadata`: collaborators (T-07).
    """

    cwd: Path
    idempotency_key: str
    protected: tuple[Path, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Directive(BaseModel, frozen=True):
    """What a tool asks the workflow to do once every gate has been passed (design section 4).

    `start`: the subagent's session that is to be started. `wait_s`: the call has no result yet, it waits so many
    seconds at most for its subagent's.
    """

    start: str = ""
    wait_s: float | None = None


class ToolResult(BaseModel, frozen=True):
    """One shape whatever the tool did (T-06)."""

    output: str
    is_error: bool = False
    directive: Directive | None = None


AGENT = "agent"  # in the metadata of a context: the frozen definition that the session works with
DIRECTIVE = "directive"  # in the metadata of a result


def directive_of(metadata: Mapping[str, Any]) -> Directive | None:
    found = metadata.get(DIRECTIVE)
    return None if found is None else Directive.model_validate(found)


class BaseTool(ABC):
    """Subclass, set the class variables, write `execute`. An undeclared effect is `once`."""

    name: ClassVar[str]
    description: ClassVar[str]
    input_model: ClassVar[type[BaseModel]]
    effect: ClassVar[Effect] = Effect.ONCE
    limit_s: ClassVar[float] = 120.0
    brief: ClassVar[bool] = False
    always_ask: ClassVar[bool] = False
    directive: ClassVar[bool] = False

    @abstractmethod
    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """`arguments` is an instance of `input_model`. Raise `ToolFailed` for what the model should read.

        Runs *at least once* for `pure` and `keyed`, at most once for `once`. Must end soon when cancelled.
        """

    def is_read_only(self, arguments: Any) -> bool:
        """Whether this very call only reads (T-04); by default, what the effect says."""
        return self.effect is Effect.PURE

    def spec(self) -> ToolSpec:
        """Raises `AuthorError` when the class does not keep the contract."""
        who = type(self).__name__
        for attribute in ("name", "description", "input_model"):
            if not getattr(self, attribute, None):
                raise AuthorError(f"tool {who} has no {attribute}", f"set `{attribute}` on the class {who}")
        if not NAME_PATTERN.fullmatch(self.name):
            raise AuthorError(
                f"tool name {self.name!r} of {who} is not accepted by model APIs",
                f"use a name that matches {NAME_PATTERN.pattern}",
            )
        if not (isinstance(self.input_model, type) and issubclass(self.input_model, BaseModel)):
            raise AuthorError(
                f"the input_model of {who} is not a Pydantic model", "subclass pydantic.BaseModel"
            )
        if not isinstance(self.effect, Effect):
            raise AuthorError(
                f"the effect of {who} is {self.effect!r}", "use a member of roundturn.tool.Effect"
            )
        if not (0 < self.limit_s <= LONGEST_LIMIT_S):
            raise AuthorError(f"limit_s of {who} is {self.limit_s}", f"0 to {LONGEST_LIMIT_S} seconds")
        if self.brief and self.effect is not Effect.PURE:
            raise AuthorError(f"tool {self.name} is brief but not pure", "only pure tools may be brief")
        return ToolSpec(
            name=self.name,
            description=self.description,
            input_schema=self.input_model.model_json_schema(),
            effect=self.effect,
            limit_s=self.limit_s,
            brief=self.brief,
            always_ask=self.always_ask,
            directive=self.directive,
        )
