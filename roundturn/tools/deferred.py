"""Tools that are not in the model's list: one finds them, with their schemas, and one stable entry calls them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from roundturn.errors import ToolFailed
from roundturn.jsontext import NotJson, cut, dump, parse_object
from roundturn.tool import (
    BY_NAME,
    FINDABLE,
    FOCUS_ARGUMENT,
    BaseTool,
    Effect,
    Permission,
    ToolContext,
    ToolResult,
    ToolSpec,
)

MOST_FOUND = 10
DESCRIPTION_BYTES = 1_000
SCHEMA_BYTES = 6_000  # of one tool; all of them stay below the budget of a result
MOST_NAMED = 100
WORD = re.compile(r"[^\W_]+")
NAME_WEIGHT, LABEL_WEIGHT, TEXT_WEIGHT = 4, 2, 1


class Search(BaseModel, extra="forbid"):
    query: str = Field(
        max_length=500, description="A few words for what you want to do, or a tool's name. Empty: all names."
    )
    limit: int = Field(3, ge=1, le=MOST_FOUND, description="How many tools to show at most.")


class ToolSearch(BaseTool):
    """Shows only what the rules would let be called from here (R-01): one that is denied is not even named."""

    name = "tool_search"
    description = "Finds tools that are not in your list and shows how they are called. Call one with call_tool_by_name."
    input_model = Search
    effect = Effect.PURE
    brief = True
    limit_s = 10.0
    category = "tools"
    permission = Permission.READ
    reaches_deferred = True

    async def execute(self, arguments: Search, context: ToolContext) -> ToolResult:
        there: Sequence[ToolSpec] = context.metadata[FINDABLE]()
        found = ranked(arguments.query, there)[: arguments.limit]
        if found:
            shown = "\n".join(dump(_shown(spec)) for spec in found)
            return ToolResult(
                output=f"{len(found)} of {len(there)} tools; call one with call_tool_by_name:\n{shown}"
            )
        names = sorted(spec.name for spec in there)
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        said = f"Nothing fits {arguments.query!r}. " if arguments.query.strip() else ""
        return ToolResult(
            output=f"{said}There are {len(names)} tools: {', '.join(names[:MOST_NAMED]) or 'none'}{more}"
        )


def ranked(query: str, specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Those that share a word with the query, best first: a tool's name says more than its text; equals by name."""
    words = set(_words(query))
    scores = {spec.name: _score(words, spec) for spec in specs}
    return sorted(
        (spec for spec in specs if scores[spec.name]), key=lambda spec: (-scores[spec.name], spec.name)
    )


def _score(words: set[str], spec: ToolSpec) -> int:
    weights: Counter[str] = Counter()
    labels = (spec.family, spec.category, *spec.tags)
    for text, weight in (
        (spec.description, TEXT_WEIGHT),
        (" ".join(labels), LABEL_WEIGHT),
        (f"{spec.name} {spec.tool}", NAME_WEIGHT),
    ):
        weights |= Counter(dict.fromkeys(_words(text), weight))
    return sum(weights[word] for word in words)


def _words(text: str) -> Iterable[str]:
    """Small, without the `s` of a plural."""
    for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)):
        yield word.casefold().removesuffix("s") if len(word) > 3 else word.casefold()


def _shown(spec: ToolSpec) -> dict[str, Any]:
    schema: Any = dict(spec.input_schema)
    if len(dump(schema)) > SCHEMA_BYTES:
        schema = cut(dump(schema), SCHEMA_BYTES)
    return {
        "name": spec.name,
        "description": cut(spec.description, DESCRIPTION_BYTES),
        "parameters": schema,
    }


class ByName(BaseModel, extra="forbid"):
    name: str = Field(min_length=1, max_length=200, description="As tool_search showed it.")
    arguments: dict[str, Any] = Field(description="As that tool's parameters say.")


class CallToolByName(BaseTool):
    """Stands for the call that it names, which is judged, approved, run and told as that tool's own.

    The list that the model is given stays the same bytes, however many tools it finds (P92).
    """

    name = BY_NAME
    description = "Calls a tool that tool_search found."
    input_model = ByName
    effect = Effect.PURE
    brief = True
    limit_s = 10.0
    category = "tools"
    permission = Permission.READ
    reaches_deferred = True

    def stands_for(self, arguments: str) -> tuple[str, str] | None:
        try:
            given = parse_object(arguments)
            focus = {FOCUS_ARGUMENT: given.pop(FOCUS_ARGUMENT)} if FOCUS_ARGUMENT in given else {}
            named = ByName.model_validate(given, strict=True)
        except (NotJson, ValidationError):
            return None  # the chain says what is wrong with it
        if named.name in (ToolSearch.name, self.name):
            return None
        return named.name, dump(focus | named.arguments)

    async def execute(self, arguments: ByName, context: ToolContext) -> ToolResult:
        raise ToolFailed(f"Name a tool that tool_search shows; {arguments.name} is none", "not_deferred")
