"""What the author of a tool wrote, seen from outside: names that nothing reads, arguments that a schema does not have."""

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

NEAR = 0.8  # `efect` and `effcet` are near to `effect`; `approver` is not near to `approval`
COMBINED = ("anyOf", "oneOf", "allOf", "prefixItems")
Schema = Mapping[str, Any]


def misspelt(thing: object, base: type) -> tuple[str, str] | None:
    """A public attribute that `base` does not know, and the class variable of `base` that it is nearly called.

    Methods are the class's own and not looked at.
    """
    declared = list(inspect.get_annotations(base))
    for name in _own(thing, base):
        if near := difflib.get_close_matches(name, declared, 1, NEAR):
            return name, near[0]
    return None


def _own(thing: object, base: type) -> Iterator[str]:
    classes = [vars(cls) for cls in type(thing).__mro__ if cls not in base.__mro__]
    known = {*dir(base), *inspect.get_annotations(base)}
    for namespace in (*classes, getattr(thing, "__dict__", {})):
        for name, value in namespace.items():
            method = inspect.isroutine(value) or isinstance(value, staticmethod | classmethod)
            if not (name.startswith("_") or name in known or method):
                yield name


def has_argument(schema: Schema, dotted: str) -> bool:
    """Whether a JSON schema has an argument of that dotted name, through lists too, as rules read it (R-07)."""
    found = [schema]
    for part in dotted.split("."):
        found = [below for each in found for way in _ways(each, schema) for below in _named(way, part)]
    return bool(found)


def _ways(schema: Schema, root: Schema, seen: tuple[str, ...] = ()) -> Iterator[Schema]:
    """What may stand there, without references, combinations and lists."""
    inner = [each for word in COMBINED for each in schema.get(word, ())]
    items = schema.get("items")
    if isinstance(items, Mapping):
        inner.append(items)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen = (*seen, reference)
        inner.append(root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {}))
    for each in inner:
        yield from _ways(each, root, seen)
    if not (inner or reference) or "properties" in schema:
        yield schema


def _named(schema: Schema, name: str) -> Iterator[Schema]:
    properties = schema.get("properties", {})
    if name in properties:
        yield properties[name]
    elif not properties:
        if "type" not in schema:  # anything at all
            yield {}
        elif more := schema.get("additionalProperties"):  # a mapping, whatever its keys
            yield more if isinstance(more, Mapping) else {}
