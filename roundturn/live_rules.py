"""Live rules: a layer that an operator puts into force while sessions run, for all of them at once (R-18)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from pydantic import BaseModel, ValidationError, model_validator

from roundturn.errors import ConfigurationError
from roundturn.faults import first_fault, rule_at, toml
from roundturn.rules import Layer, Rule, RuleContext, check_ids

MOST_BYTES = 64 * 1024  # of the stored text: every call of every session reads it


@dataclass(frozen=True)
class LiveRulesRow:
    """The one record. `text`: the rules as JSON; `version` counts the changes; `at` is aware UTC."""

    text: str
    version: int
    actor: str
    at: datetime


class RuleSet(BaseModel, frozen=True, extra="forbid"):
    """What a file and the record hold."""

    rules: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _can_hold_live(self) -> Self:
        check_ids(self.rules)
        for rule in self.rules:
            if rule.effect == "hide":
                raise ValueError(
                    f"rule {rule.id!r}: a running session's list of tools is frozen; deny instead of hide"
                )
        return self


@dataclass(frozen=True)
class LiveLayer:
    """The record, understood. `unreadable` says where it is broken; then every call is denied (X-03)."""

    layer: Layer
    unreadable: str = ""

    def over(self, context: RuleContext) -> RuleContext:
        """The session's rules and these: one layer more, right after the operator's."""
        if self.unreadable:
            return replace(context, unreadable=context.unreadable or self.unreadable)
        return replace(context, layers=(*context.layers, self.layer)) if self.layer.rules else context


NOTHING = LiveLayer(Layer(name="live"))


def understood(row: LiveRulesRow | None) -> LiveLayer:
    """Total: what cannot be read is no reason to guess."""
    if row is None:
        return NOTHING
    try:
        return LiveLayer(Layer(name="live", rules=RuleSet.model_validate_json(row.text).rules))
    except ValidationError as fault:
        return LiveLayer(NOTHING.layer, unreadable=f"live {_first_fault(fault)}")


def written(rules: Sequence[Rule]) -> str:
    """The record's text. Raises `ConfigurationError` for rules that cannot hold live, or are too many."""
    try:
        text = RuleSet(rules=tuple(rules)).model_dump_json(exclude_unset=True)
    except ValidationError as fault:
        raise ConfigurationError(f"live {_first_fault(fault)}") from None
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(
            f"live rules may have {MOST_BYTES} bytes in all, these have {len(text.encode())}",
            "what holds for good belongs under [policy] in roundturn.toml",
        )
    return text


def parse_rules(text: str, source: str) -> tuple[Rule, ...]:
    """Of a TOML file of `[[rules]]`. Raises `ConfigurationError` naming `source` and the place."""
    form = "write each rule as [[rules]] with id, effect and match; see docs/guides/tools.md"
    try:
        written = toml(text)
    except ValueError as fault:
        raise ConfigurationError(f"{source}: this is not TOML: {fault}", form) from None
    try:
        found = RuleSet.model_validate(written)
    except ValidationError as fault:
        raise ConfigurationError(f"{source}: {_first_fault(fault, written)}", form) from None
    if not found.rules:
        raise ConfigurationError(
            f"{source}: there is no rule in it", f"{form}; to end all: roundturn rules clear"
        )
    return found.rules


def _first_fault(fault: ValidationError, written: object = None) -> str:
    place, said = first_fault(fault, RuleSet)
    return f"{place or 'rules'}{rule_at(place, [written])}: {said}"
