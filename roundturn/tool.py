"""What a tool is: a name, a Pydantic input, a declared effect and one coroutine; nothing of policy or display."""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from roundturn.errors import AuthorError, ToolFailed
from roundturn.jsontext import NotJson, clean_json, dump

CATEGORY_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MAX_OUTPUT_BYTES = 32 * 1024  # what a tool of ours answers at most (design section 12)
LONGEST_LIMIT_S = 7 * 24 * 3600
BUILTIN = "builtin"


class Effect(StrEnum):
    """What running twice would do (design section 1, decision 5)."""

    PURE = "pure"  # reads only, repeatable
    KEYED = "keyed"  # changes something, repeatable with our idempotency key
    ONCE = "once"  # changes something, not repeatable


class Permission(StrEnum):
    """How far a tool reaches, from little to much; rules bound it (R-07)."""

    READ = "read"  # looks at what is in the action directory
    WRITE = "write"  # changes what is in it
    NETWORK = "network"  # talks to other machines
    EXECUTE = "execute"  # runs what the model wrote
    ADMIN = "admin"  # changes who may do what

    @property
    def rank(self) -> int:
        return RANKS[self]


RANKS = {permission: rank for rank, permission in enumerate(Permission)}

Exposure = Literal["listed", "deferred"]  # in every request, or found by search only (T-26)
Asking = Literal["by_effect", "required", "always"]  # `always`: nothing waives the person (design section 6)
ArgumentKind = Literal["command", "path", "url"]


@dataclass(frozen=True)
class ToolSpec:
    """What rules, the workflow and the audit know of a tool without running it (T-17).

    `name`: as models call it; `tool`: as its author did. `limit_s`: seconds one attempt may take. `brief`: under one
    second and cancellable, so that it may run beside the workflow as a local activity. `privileged`: off until the
    operator turns it on (X-02). `sometimes_reads`: whether a call only reads depends on its arguments.
    `directive`: it may ask the workflow for something. `argument_kinds`: which arguments have more than one spelling.
    `reaches_deferred`: it is there while there are deferred tools, whether a list names it or not (N-13).
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    effect: Effect
    limit_s: float
    brief: bool
    category: str
    family: str = ""
    tags: tuple[str, ...] = ()
    exposure: Exposure = "listed"
    permission: Permission = Permission.EXECUTE
    privileged: bool = False
    approval: Asking = "by_effect"
    sometimes_reads: bool = False
    origin: str = BUILTIN
    tool: str = ""
    directive: bool = False
    reaches_deferred: bool = False
    argument_kinds: Mapping[str, ArgumentKind] = field(default_factory=dict)

    @property
    def may_only_read(self) -> bool:
        """At best: some calls of it only read, or all."""
        return self.effect is Effect.PURE or self.sometimes_reads


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


# In the metadata of a context: the frozen definition that the session works with; and a function that lists the specs of
# the deferred tools that may be called there.
AGENT = "agent"
FINDABLE = "findable"
DIRECTIVE = "directive"  # in the metadata of a result


def directive_of(metadata: Mapping[str, Any]) -> Directive | None:
    found = metadata.get(DIRECTIVE)
    return None if found is None else Directive.model_validate(found)


class BaseTool(ABC):
    """Subclass, set the class variables, write `execute`.

    What is not declared is taken for the worst: an effect of `once`, permission `execute`, asking by its effect.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    input_model: ClassVar[type[BaseModel]]
    effect: ClassVar[Effect] = Effect.ONCE
    limit_s: ClassVar[float] = 120.0
    brief: ClassVar[bool] = False
    category: ClassVar[str]
    family: ClassVar[str] = ""
    tags: ClassVar[tuple[str, ...]] = ()
    exposure: ClassVar[Exposure] = "listed"
    permission: ClassVar[Permission] = Permission.EXECUTE
    privileged: ClassVar[bool] = False
    approval: Asking = "by_effect"
    directive: ClassVar[bool] = False
    reaches_deferred: ClassVar[bool] = False
    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {}

    @abstractmethod
    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        """`arguments` is an instance of `input_model`. Raise `ToolFailed` for what the model should read.

        Runs *at least once* for `pure` and `keyed`, at most once for `once`. Must end soon when cancelled.
        """

    def is_read_only(self, arguments: Any) -> bool:
        """Whether this very call only reads (T-04); by default, what the effect says. `arguments` have been validated."""
        return self.effect is Effect.PURE

    def shown_to(self, delegates: Mapping[str, str]) -> str | None:
        """The description for an agent, None when the tool is not for it. `delegates`: its subagents, with theirs."""
        return self.description

    def stands_for(self, arguments: str) -> tuple[str, str] | None:
        """Another tool and its arguments (JSON) that a call of this one is; None: it is a call of this one."""
        return None

    def spec(self, origin: str = BUILTIN, name: str = "") -> ToolSpec:
        """`name`: what models call it, when that is not its own. Raises `AuthorError` for a broken contract."""
        self._keeps_the_contract()
        return ToolSpec(
            name=name or self.name,
            description=self.description,
            input_schema=self.input_model.model_json_schema(),
            effect=self.effect,
            limit_s=self.limit_s,
            brief=self.brief,
            category=self.category,
            family=self.family or self.category,
            tags=self.tags,
            exposure=self.exposure,
            permission=self.permission,
            privileged=self.privileged,
            approval=self.approval,
            sometimes_reads=type(self).is_read_only is not BaseTool.is_read_only,
            origin=origin,
            tool=self.name,
            directive=self.directive,
            reaches_deferred=self.reaches_deferred,
            argument_kinds=self.argument_kinds,
        )

    def _keeps_the_contract(self) -> None:
        who = type(self).__name__
        for attribute in ("name", "description", "input_model", "category"):
            if not getattr(self, attribute, None):
                raise AuthorError(f"tool {who} has no {attribute}", f"set `{attribute}` on the class {who}")
        if not (isinstance(self.input_model, type) and issubclass(self.input_model, BaseModel)):
            raise AuthorError(
                f"the input_model of {who} is not a Pydantic model", "subclass pydantic.BaseModel"
            )
        if not isinstance(self.effect, Effect):
            raise AuthorError(
                f"the effect of {who} is {self.effect!r}", "use a member of roundturn.tool.Effect"
            )
        if not isinstance(self.permission, Permission):
            raise AuthorError(
                f"the permission of {who} is {self.permission!r}", "use a member of roundturn.tool.Permission"
            )
        for attribute, kind in (("exposure", Exposure), ("approval", Asking)):
            if getattr(self, attribute) not in get_args(kind):
                given = getattr(self, attribute)
                raise AuthorError(f"{attribute} of {who} is {given!r}", f"one of {', '.join(get_args(kind))}")
        if not CATEGORY_PATTERN.fullmatch(self.category):
            raise AuthorError(
                f"category {self.category!r} of {who}", f"a word like {CATEGORY_PATTERN.pattern}"
            )
        if not (0 < self.limit_s <= LONGEST_LIMIT_S):
            raise AuthorError(f"limit_s of {who} is {self.limit_s}", f"0 to {LONGEST_LIMIT_S} seconds")
        if self.brief and self.effect is not Effect.PURE:
            raise AuthorError(f"tool {self.name} is brief but not pure", "only pure tools may be brief")


def tool(
    *, category: str, effect: Effect = Effect.ONCE, **declared: Any
) -> Callable[[Callable[..., Awaitable[Any]]], type[BaseTool]]:
    """Makes a tool of a typed async function: its name, docstring and parameters are the tool's.

    A parameter annotated `ToolContext` gets the context and is not the model's. `declared`: any other class variable of
    `BaseTool`. A result that is no text is sent as JSON; what has no JSON form is refused (P31). Raises `AuthorError`.
    """

    def make(function: Callable[..., Awaitable[Any]]) -> type[BaseTool]:
        given, model = _parameters(function)

        async def execute(self: BaseTool, arguments: Any, context: ToolContext) -> ToolResult:
            values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
            return as_result(await function(**values, **dict.fromkeys(given, context)))

        unknown = sorted(name for name in declared if not hasattr(BaseTool, name) or name.startswith("_"))
        if unknown:
            raise AuthorError(f"@tool on {function.__name__}: nothing is declared as {', '.join(unknown)}")
        namespace: dict[str, Any] = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "name": function.__name__,
            "description": inspect.cleandoc(function.__doc__ or ""),
            "input_model": model,
            "category": category,
            "effect": effect,
            **declared,
            "execute": execute,
        }
        return type(function.__name__, (BaseTool,), namespace)

    return make


def _parameters(function: Callable[..., Awaitable[Any]]) -> tuple[list[str], type[BaseModel]]:
    """Which parameters take the context, and the input model of the others."""
    where = f"@tool on {getattr(function, '__name__', function)!s}"
    if not inspect.iscoroutinefunction(function):
        raise AuthorError(f"{where}: it is not an async function", "write `async def`")
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as fault:
        raise AuthorError(f"{where}: {fault}", "annotate with names of the module itself") from None
    given: list[str] = []
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise AuthorError(
                f"{where}: parameter {name} has no name for the model", "use named parameters only"
            )
        if name not in hints:
            raise AuthorError(f"{where}: parameter {name} has no type", f"annotate {name}")
        if hints[name] is ToolContext:
            given.append(name)
        else:
            fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
    return given, create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def as_result(value: Any) -> ToolResult:
    """What a function returned, as a result. Raises `ToolFailed` for what has no JSON form."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, BaseModel):
        return ToolResult(output=value.model_dump_json())
    if isinstance(value, str):
        return ToolResult(output=value)
    try:
        return ToolResult(output="done" if value is None else dump(clean_json(value)))
    except NotJson as fault:
        raise ToolFailed(f"It ran; its result cannot be shown: {fault}", "result_not_json") from None
