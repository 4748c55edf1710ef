"""What a tool is: a name, a Pydantic input, a declared effect and one coroutine; nothing of policy or display."""

import difflib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticUserError

from roundturn.declaration import NEAR, has_argument, misspelt
from roundturn.errors import AuthorError, ToolFailed
from roundturn.jsontext import NotJson, clean_json, dump

CATEGORY_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MAX_OUTPUT_BYTES = 32 * 1024  # what a tool of ours answers at most (design section 12)
LONGEST_LIMIT_S = 7 * 24 * 3600
BUILTIN = "builtin"
JSON_FORM = "annotate with what has a JSON form"


class Effect(StrEnum):
    """What running twice would do (design section 1, decision 5)."""

    PURE = "pure"  # reads only, repeatable
    KEYED = "keyed"  # changes something, repeatable with our idempotency key
    ONCE = "once"  # changes something, not repeatable

    @property
    def rank(self) -> int:
        """From what may be repeated freely to what may not at all."""
        return list(Effect).index(self)


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
MAY_FOLLOW = "may_follow"  # and one: are the rules no stricter about the same call with other arguments?
BY_NAME = "call_tool_by_name"
FOCUS_ARGUMENT = "summary_focus"  # of any call; the chain takes it out, it is not the tool's
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
    async def execute(self, arguments: Any, context: ToolContext) -> Any:
        """`arguments` is an instance of `input_model`. Raise `ToolFailed` for what the model should read.

        Returns a `ToolResult`, or what `as_result` makes one of: a text, a Pydantic model, what has a JSON form.
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
        schema = self._keeps_the_contract()
        return ToolSpec(
            name=name or self.name,
            description=self.description,
            input_schema=schema,
            effect=self.effect,
            limit_s=self.limit_s,
            brief=self.brief,
            category=self.category,
            family=self.family or self.category,
            tags=tuple(self.tags),
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

    def _keeps_the_contract(self) -> dict[str, Any]:
        """The schema of the input. Raises `AuthorError` for whatever would fail later, or be passed over in silence."""
        who = type(self).__name__
        if (slip := misspelt(self, BaseTool)) is not None:
            name, meant = slip
            raise AuthorError(
                f"{who} declares {name}, which nothing reads", f"write {meant}; what is its own begins with _"
            )
        for attribute in ("name", "description", "input_model", "category"):
            if not getattr(self, attribute, None):
                raise AuthorError(f"tool {who} has no {attribute}", f"set `{attribute}` on the class {who}")
        self._declares_the_right_kinds(who)
        if not CATEGORY_PATTERN.fullmatch(self.category):
            raise AuthorError(
                f"category {self.category!r} of {who}", f"a word like {CATEGORY_PATTERN.pattern}"
            )
        if not (0 < self.limit_s <= LONGEST_LIMIT_S):
            raise AuthorError(f"limit_s of {who} is {self.limit_s}", f"0 to {LONGEST_LIMIT_S} seconds")
        if self.brief and self.effect is not Effect.PURE:
            raise AuthorError(f"tool {self.name} is brief but not pure", "only pure tools may be brief")
        if not inspect.iscoroutinefunction(self.execute):
            raise AuthorError(f"execute of {who} is no coroutine function", "write `async def execute`")
        for attribute in ("is_read_only", "shown_to", "stands_for"):  # a coroutine would be taken for a yes
            method = getattr(self, attribute)
            if not callable(method) or inspect.iscoroutinefunction(method):
                raise AuthorError(f"{attribute} of {who} is no plain method", f"write `def {attribute}`")
        try:
            schema = self.input_model.model_json_schema()
        except Exception as fault:  # the author's own types are asked, and may raise anything
            raise AuthorError(f"the input_model of {who} has no JSON schema: {fault}", JSON_FORM) from fault
        self._names_its_arguments(who, schema)
        return schema

    def _declares_the_right_kinds(self, who: str) -> None:
        if not (isinstance(self.input_model, type) and issubclass(self.input_model, BaseModel)):
            raise AuthorError(
                f"the input_model of {who} is not a Pydantic model", "subclass pydantic.BaseModel"
            )
        for attribute, member in (("effect", Effect), ("permission", Permission)):
            given = getattr(self, attribute)
            if not isinstance(given, member):
                hint = f"use a member of roundturn.tool.{member.__name__}"
                raise AuthorError(f"the {attribute} of {who} is {given!r}", hint)
        for attribute, kind in (("exposure", Exposure), ("approval", Asking)):
            given = getattr(self, attribute)
            if given not in get_args(kind):
                raise AuthorError(f"{attribute} of {who} is {given!r}", f"one of {', '.join(get_args(kind))}")
        for attribute in ("name", "description", "category", "family"):
            if not isinstance(given := getattr(self, attribute), str):
                raise AuthorError(f"{attribute} of {who} is {given!r}", "write a text")
        for attribute in ("brief", "privileged", "directive", "reaches_deferred"):
            if not isinstance(given := getattr(self, attribute), bool):
                raise AuthorError(f"{attribute} of {who} is {given!r}", "write True or False")
        if isinstance(self.limit_s, bool) or not isinstance(self.limit_s, int | float):
            raise AuthorError(f"limit_s of {who} is {self.limit_s!r}", "write a number of seconds")
        if not isinstance(self.tags, tuple | list) or not all(isinstance(tag, str) for tag in self.tags):
            raise AuthorError(f"tags of {who} are {self.tags!r}", 'write a tuple of texts: ("one",)')

    def _names_its_arguments(self, who: str, schema: Mapping[str, Any]) -> None:
        kinds = self.argument_kinds
        if not isinstance(kinds, Mapping) or not all(isinstance(name, str) for name in kinds):
            raise AuthorError(f"argument_kinds of {who} are {kinds!r}", 'write a mapping: {"file": "path"}')
        for name, kind in kinds.items():
            where = f"argument_kinds of {who}: {name}"
            if kind not in get_args(ArgumentKind):
                raise AuthorError(f"{where} is {kind!r}", f"one of {', '.join(get_args(ArgumentKind))}")
            if not has_argument(schema, name):
                raise AuthorError(f"{where} is no argument of the input_model", "name one as its schema does")


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

        open_to_it = {name for name in dir(BaseTool) if not name.startswith("_")} - {"execute", "spec"}
        for name in sorted(declared.keys() - open_to_it):
            near = difflib.get_close_matches(name, sorted(open_to_it), 1, NEAR)
            raise AuthorError(
                f"@tool on {function.__name__}: nothing is declared as {name}",
                f"did you mean {near[0]}?" if near else "declare class variables of BaseTool",
            )
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
        elif name.startswith("_"):  # Pydantic would leave it out without a word
            raise AuthorError(f"{where}: parameter {name} begins with _", "give it a name for the model")
        else:
            fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
    try:
        return given, create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticUserError as fault:
        raise AuthorError(f"{where}: {fault}", JSON_FORM) from fault


def as_result(value: Any) -> ToolResult:
    """What a tool returned, as a result. Raises `ToolFailed` for what cannot be shown: the tool has run all the same."""
    try:
        return _as_text(value)
    except ValueError as fault:  # `NotJson`, and Pydantic's for a model
        why = str(fault)
    except Exception as fault:  # noqa: BLE001 - the author's own types are asked, and may raise anything
        why = type(fault).__name__
    raise ToolFailed(f"It ran; its result cannot be shown: {why}", "result_not_json")


def _as_text(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        if not isinstance(value.output, str):  # copied or constructed without validation
            raise NotJson(f"its output is of type {type(value.output).__name__} and no text")
        return value
    if isinstance(value, BaseModel):
        return ToolResult(output=value.model_dump_json())
    if isinstance(value, str):
        return ToolResult(output=value)
    return ToolResult(output="done" if value is None else dump(clean_json(value)))
