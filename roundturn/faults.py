"""What is wrong with a record that a person wrote, in words that say what to write instead."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from roundturn.matching import ArgumentMatch
from roundturn.rules import Match, Policy, Rule, When

PARTS: Mapping[str, type[BaseModel]] = {
    "policy": Policy, "rules": Rule, "match": Match, "except": Match, "when": When, "argument": ArgumentMatch,
}  # fmt: skip
LISTS = frozenset({"tuple_type", "list_type"})


def toml(text: str) -> dict[str, Any]:
    """Raises `ValueError` with what is wrong, whatever it is."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def first_fault(fault: ValidationError, record: type[BaseModel]) -> tuple[str, str]:
    """The place, with dots, and what is wrong there. `record`: what was to be made of the whole."""
    first = fault.errors(include_url=False, include_input=False)[0]
    place = [str(part) for part in first["loc"] if part != "except_"]
    return ".".join(place), _told(first, place, record)


def _told(first: Mapping[str, Any], place: list[str], record: type[BaseModel]) -> str:
    if first["type"] == "extra_forbidden":
        *around, name = place
        known = _names(next((PARTS[part] for part in reversed(around) if part in PARTS), record))
        above = f"; write it above {place[0]}" if len(place) > 1 and name in _names(record) else ""
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"there is no {name} here" + (above or f"; {meant}")
    if first["type"] in LISTS:
        return 'a list is wanted, such as ["read_*"]'
    if first["type"] == "missing":
        return "it is missing"
    return str(first["msg"]).removeprefix("Value error, ")


def _names(record: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in record.model_fields.items()]


def rule_at(place: str, records: Iterable[Any]) -> str:
    """The id of the rule that a place such as `policy.rules.0.match` is in, as far as `records` have one: ` (rule x)`."""
    parts = place.split(".")
    if "rules" not in parts[:-1] or not parts[parts.index("rules") + 1].isdigit():
        return ""
    way = parts[: parts.index("rules") + 2]
    rules = (_at(record, way) for record in records)
    names = (rule["id"] for rule in rules if isinstance(rule, Mapping) and isinstance(rule.get("id"), str))
    return next((f" (rule {name})" for name in names), "")


def _at(record: Any, way: list[str]) -> Any:
    """None when it leads nowhere."""
    if not way:
        return record
    first, *rest = way
    if isinstance(record, Mapping):
        return _at(record.get(first), rest)
    if isinstance(record, list) and first.isdigit() and int(first) < len(record):
        return _at(record[int(first)], rest)
    return None
