"""The only decision function: may this tool be called here, by whose rule, and must a person say yes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from roundturn.glob import compiled, matches
from roundturn.matching import ArgumentMatch, unjudgeable
from roundturn.mode import RunMode
from roundturn.tool import Exposure, Permission, ToolSpec

RuleEffect = Literal["allow", "deny", "hide", "require_approval", "auto_approve"]
Verdict = Literal["allow", "ask", "deny"]
STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}
RULE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LOOSENING: frozenset[RuleEffect] = frozenset({"allow", "auto_approve"})
ABOVE_THE_MODE = ("operator", "live")


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Named = Callable[[str], object]
Globs = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Match(BaseModel, frozen=True, extra="forbid"):
    """Which tools and calls: every selector that is given must fit; a list fits when one of its globs does (R-07)."""

    name: Globs = ()
    origin: Globs = ()
    family: Globs = ()
    tags: Globs = ()
    category: str | None = None
    exposure: Exposure | None = None
    min_permission: Permission | None = None
    max_permission: Permission | None = None
    side_effects: bool | None = None
    argument: ArgumentMatch | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError('it selects nothing; for every tool write name = "*"')
        return self

    def fits_tool(self, spec: ToolSpec) -> bool:
        """All that does not depend on the call."""
        named = not self.name or matches(self.name, spec.name)
        return named and all(fits(spec) for fits in other_tests(self))

    def fits_call(self, question: "Question", loosens: bool) -> bool:
        """What the call decides. Where it cannot be told yet, a rule that loosens may fit and one that narrows does not."""
        if self.side_effects is not None and self.side_effects == question.reads:
            return False
        if self.argument is None:
            return True
        if question.arguments is None:
            return loosens
        return self.argument.fits(
            question.spec, question.arguments, question.context.workdir, exactly=loosens
        )


class When(BaseModel, frozen=True, extra="forbid"):
    """Where a rule holds; what is not given holds everywhere (R-09)."""

    agent: Globs = ()
    entry: Globs = ()
    mode: RunMode | None = None

    def holds(self, context: "RuleContext", loosens: bool) -> bool:
        """Where it cannot be told yet, a rule that loosens may hold and one that narrows does not."""
        return (
            (not self.agent or matches(self.agent, context.agent))
            and (not self.entry or self._comes_in(context.entries, loosens))
            and (self.mode is None or self.mode == context.mode)
        )

    def _comes_in(self, entries: tuple[str, ...] | None, loosens: bool) -> bool:
        return loosens if entries is None else any(matches(self.entry, entry) for entry in entries)


class Rule(BaseModel, frozen=True, extra="forbid", serialize_by_alias=True):
    """One record of a policy (R-06). `except` carves out of `match`; `reason` is what people and models read."""

    id: str
    effect: RuleEffect
    match: Match
    except_: Match | None = Field(default=None, alias="except")
    when: When = When()
    reason: str = Field(default="", max_length=500)

    def fits_call(self, question: "Question") -> bool:
        """Of a rule that holds here and whose `match` fits the tool."""
        loosens = self.effect in LOOSENING
        if not self.match.fits_call(question, loosens):
            return False
        carved = self.except_
        return carved is None or not (
            carved.fits_tool(question.spec) and carved.fits_call(question, not loosens)
        )


def other_tests(match: Match) -> Iterator[Callable[[ToolSpec], object]]:
    """A test for each selector that is given and is not the name."""
    if match.origin:
        is_origin = compiled(match.origin).fullmatch
        yield lambda spec: is_origin(spec.origin)
    if match.family:
        is_family = compiled(match.family).fullmatch
        yield lambda spec: is_family(spec.family)
    if match.tags:
        is_tag = compiled(match.tags).fullmatch
        yield lambda spec: any(map(is_tag, spec.tags))
    if match.category is not None:
        yield lambda spec: spec.category == match.category
    if match.exposure is not None:
        yield lambda spec: spec.exposure == match.exposure
    if (least := match.min_permission) is not None:
        yield lambda spec: spec.permission.rank >= least.rank
    if (most := match.max_permission) is not None:
        yield lambda spec: spec.permission.rank <= most.rank


class Held:
    """The rules of a layer that hold in one place, as they are asked for: by tool.

    Many tools differ in nothing but their names: all other selectors are asked once for tools of a kind.
    """

    def __init__(self, rules: Sequence[Rule], context: "RuleContext") -> None:
        hold = [rule for rule in rules if rule.when.holds(context, rule.effect in LOOSENING)]
        self._rules = [(list(other_tests(rule.match)), (_named(rule.match), rule)) for rule in hold]
        self._by_kind: dict[tuple[Any, ...], list[tuple[Named | None, Rule]]] = {}
        lists = (rule for rule in hold if rule.effect == "allow" and rule.when.holds(context, loosens=False))
        # A layer that allows something denies what none of its rules names; the word or id of what makes it so.
        self.allow_list = next((rule.id.split(" ")[0] for rule in lists), "")

    def rules_for(self, spec: ToolSpec) -> list[Rule]:
        """Those whose `match` fits the tool whatever the call is."""
        kind = (spec.origin, spec.family, spec.tags, spec.category, spec.exposure, spec.permission)
        alike = self._by_kind.get(kind)
        if alike is None:
            alike = [each for tests, each in self._rules if not tests or all(fits(spec) for fits in tests)]
            self._by_kind[kind] = alike
        name = spec.name
        return [rule for named, rule in alike if named is None or named(name)]


def _named(match: Match) -> Named | None:
    return compiled(match.name).fullmatch if match.name else None


class Layer(BaseModel, frozen=True):
    """The rules of one author. Layers are conjunctive: each must let a call pass (R-02)."""

    name: Literal["operator", "live", "agent", "embedder"]
    rules: tuple[Rule, ...] = ()


class Policy(BaseModel, frozen=True, extra="forbid"):
    """The operator's word: short lists of name globs, and rules.

    `deny`, `ask`: as their names say. `allow`: runs without asking; and with a non-empty list whatever neither
    it nor another list or rule names is denied (M-13).
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _ids_are_good(self) -> Self:
        check_ids(self.rules)
        return self

    @property
    def layer(self) -> Layer:
        return Layer(
            name="operator",
            rules=(
                *named("deny", self.deny, "the operator's deny list names it"),
                *named("require_approval", self.ask, "the operator wants a person to decide", "ask"),
                *named("allow", self.allow, "the operator's allow list names it"),
                *named("auto_approve", self.allow, "the operator's allow list names it", "allow"),
                *self.rules,
            ),
        )


def check_ids(rules: Sequence[Rule]) -> None:
    """Raises `ValueError` for an id that people could not name or that two rules share."""
    seen: set[str] = set()
    for rule in rules:
        if first_bad := _bad_id(rule.id, seen):
            raise ValueError(f"rule {rule.id!r}: {first_bad}")
        seen.add(rule.id)


def _bad_id(id_: str, seen: set[str]) -> str:
    if RULE_ID.fullmatch(id_) is None:
        return "an id has letters, digits, dot, dash and underscore, 64 at most"
    return "two rules have this id" if id_ in seen else ""


def named(effect: RuleEffect, globs: Iterable[str], reason: str, word: str = "") -> Iterator[Rule]:
    """A list of name globs as rules; their ids have a blank, so that no written rule has the same."""
    for glob in globs:
        yield Rule(id=f"{word or effect} {glob}", effect=effect, match=Match(name=(glob,)), reason=reason)


@dataclass(frozen=True)
class RuleContext:
    """What a decision depends on beside the tool and its arguments.

    `entries`: where the work came in, and `subagent` for delegated work; None: that is not known yet. `layers`: in
    their order. `read_only`: of this very call; None: of the tool as it may be called at best. `privileged`: globs of
    the privileged tools that the operator turned on. `unreadable` says why the rules could not be read; then everything
    is denied (X-03).
    """

    agent: str
    layers: tuple[Layer, ...] = ()
    entries: tuple[str, ...] | None = ()
    mode: RunMode = "build"
    read_only: bool | None = None
    privileged: tuple[str, ...] = ()
    workdir: str = ""
    unreadable: str = ""

    @cached_property
    def held(self) -> tuple[tuple[str, Held], ...]:
        """Of each layer its name and what of it holds here."""
        return tuple((layer.name, Held(layer.rules, self)) for layer in self.layers)

    def reading(self, read_only: bool) -> Self:
        """For a call that is known to only read, or not."""
        return replace(self, read_only=read_only)


# What entries are called: rules may name others, which a channel of one's own may have (N-02).
ENTRIES = ("cli", "library", "subagent", "chat", "channel", "cron", "webhook", "approval_followup")


def entries_of(entry: str, depth: int) -> tuple[str, ...]:
    """Where a session's work comes in. Delegated work keeps the entry of what it was delegated by (P53)."""
    return (entry, "subagent") if depth else (entry,)


@dataclass(frozen=True)
class Decision:
    """`rule` and `layer` name who decided (R-15). `listed`: it may be shown; a hidden tool is callable and not shown."""

    effect: Verdict
    rule: str
    layer: str
    reason: str
    listed: bool = True


@dataclass
class Question:
    """`arguments` None: nobody has called yet, the question is what to show."""

    spec: ToolSpec
    arguments: Mapping[str, Any] | None
    context: RuleContext
    reads: bool


@dataclass
class Opinions:
    """What the layers said, each kind in their order."""

    deny: list[Decision] = field(default_factory=list)
    ask: list[Decision] = field(default_factory=list)
    waive: list[Decision] = field(default_factory=list)
    hidden: bool = False


def decide(spec: ToolSpec, arguments: Mapping[str, Any] | None, context: RuleContext) -> Decision:
    """Total: every tool and every argument gets an answer. Deny beats ask beats allow, over all layers.

    A waiver (`auto_approve`) only waives what the tool itself declares and the default asks; never another layer.
    """
    reads = spec.may_only_read if context.read_only is None else context.read_only
    question = Question(spec, arguments, context, reads)
    said = Opinions()
    _platform(question, said)
    for layer, held in context.held:
        if layer in ABOVE_THE_MODE:
            _ask_layer(layer, held, question, said)
    _run_mode(question, said)
    for layer, held in context.held:
        if layer not in ABOVE_THE_MODE and not said.deny:
            _ask_layer(layer, held, question, said)
    return _verdict(question, said)


def depends_on_arguments(spec: ToolSpec, context: RuleContext) -> bool:
    """Whether what is decided before a call may be decided otherwise about one."""
    rules = (rule for _, held in context.held for rule in held.rules_for(spec))
    return (
        spec.sometimes_reads
        or "command" in spec.argument_kinds.values()
        or any(each.argument is not None for rule in rules for each in (rule.match, rule.except_) if each)
    )


def _platform(question: Question, said: Opinions) -> None:
    spec, context = question.spec, question.context
    if context.unreadable:
        why = f"the rules cannot be read: {context.unreadable}"
        said.deny.append(_platform_says("deny", "unreadable", why))
    if spec.privileged and not matches(context.privileged, spec.name):
        why = f"{spec.name} is privileged and off; the operator turns it on with the setting privileged_tools"
        said.deny.append(_platform_says("deny", "privileged", why))
    if question.arguments is not None:
        for why in unjudgeable(spec, question.arguments):
            said.ask.append(_platform_says("ask", "shell", why))
    if spec.approval == "always":
        why = f"{spec.name} can reach beyond the action directory; nothing waives a person here"
        said.ask.append(_platform_says("ask", "always-ask", why))


def _platform_says(effect: Verdict, rule: str, reason: str) -> Decision:
    return Decision(effect, rule, "platform", reason, listed=effect != "deny")


def _run_mode(question: Question, said: Opinions) -> None:
    if question.context.mode == "plan" and not question.reads and not question.spec.directive:
        why = "the session is in plan mode, where tools only read; a person switches it to build"
        said.deny.append(Decision("deny", "plan", "run mode", why, listed=False))


def _ask_layer(layer: str, held: Held, question: Question, said: Opinions) -> None:
    fitting = [rule for rule in held.rules_for(question.spec) if rule.fits_call(question)]
    for rule in fitting:
        reason = rule.reason or f"rule {rule.id} says so"
        match rule.effect:
            case "deny":
                said.deny.append(Decision("deny", rule.id, layer, reason, listed=False))
            case "require_approval":
                said.ask.append(Decision("ask", rule.id, layer, reason))
            case "auto_approve":
                said.waive.append(Decision("allow", rule.id, layer, reason))
            case "hide":
                said.hidden = True
            case "allow":
                pass  # it has been named: the layer's list, below, lets it through
    if question.spec.reaches_deferred:
        return  # no list need name the way to what it names; what is reached that way is judged for itself (N-13)
    if held.allow_list and all(rule.effect == "hide" for rule in fitting):
        why = _not_named(layer, question)
        said.deny.append(Decision("deny", held.allow_list, layer, why, listed=False))


def _not_named(layer: str, question: Question) -> str:
    if layer == "agent":
        return f"the agent {question.context.agent} does not list it"
    if layer == "live":
        return "the allow list of the live rules does not name it"
    return f"the {layer}'s allow list does not name it"


def _verdict(question: Question, said: Opinions) -> Decision:
    if said.deny:
        return said.deny[0]
    decided = next(iter(said.ask or said.waive), None) or _default(question.spec, question.reads)
    return replace(decided, listed=False) if said.hidden else decided


def _default(spec: ToolSpec, reads: bool) -> Decision:
    if spec.approval == "required":
        return Decision("ask", "declared", "default", f"{spec.name} declares that a person decides")
    if reads:
        return Decision("allow", "read-only", "default", "it only reads")
    if spec.directive:
        return Decision("allow", "directive", "default", "it asks the workflow, whose own gates follow")
    return Decision("ask", "side-effect", "default", f"{spec.name} changes something ({spec.effect.value})")
