"""Whether an argument is what a rule means, however it is spelt: commands are parsed, paths and addresses made plain."""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from roundturn.glob import first_match
from roundturn.jsontext import dump
from roundturn.shell import command_matches, judge
from roundturn.tool import ToolSpec

MISSING = object()


def argument_matches(
    name: str,
    glob: str | None,
    equals: str | int | bool | None,
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    workdir: str,
    exactly: bool,
) -> bool:
    """`exactly`: for a rule that loosens, where a spelling that could mean something else does not match.

    For one that narrows, any of the spellings is enough: it is better to refuse too much than too little.
    """
    value = _at(arguments, name)
    if value is MISSING:
        return False
    if glob is None:
        return type(value) is type(equals) and value == equals
    text = value if isinstance(value, str) else dump(value)
    match spec.argument_kinds.get(name):
        case "command":
            return command_matches(glob, text, exactly) or (
                not exactly and first_match((glob,), text) is not None
            )
        case "path":
            return first_match((glob,), _plain_path(text, workdir)) is not None
        case "url":
            plain = _plain_url(text)
            return (
                plain is not None and first_match((glob,), plain) is not None
                if exactly
                else (first_match((glob,), plain or text) is not None)
            )
        case _:
            return first_match((glob,), text) is not None


def unjudgeable(spec: ToolSpec, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Why a command among the arguments is more than one plain command, so that no rule may answer for a person (P128)."""
    for name, kind in spec.argument_kinds.items():
        if kind == "command" and isinstance(command := _at(arguments, name), str):
            judged = judge(command)
            if judged.plain is None:
                yield f"the command is not a plain one: {judged.why}"


def _at(arguments: Mapping[str, Any], name: str) -> Any:
    found: Any = arguments
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return MISSING
        found = found[part]
    return found


def _plain_path(text: str, workdir: str) -> str:
    """Relative to the action directory, without `.`, doubled slashes or a second Unicode spelling."""
    path = PurePosixPath(unicodedata.normalize("NFC", text))
    root = PurePosixPath(unicodedata.normalize("NFC", workdir)) if workdir else None
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return str(path)


def _plain_url(text: str) -> str | None:
    """None for an address that two readers could understand differently."""
    if not text.isascii() or not text.isprintable() or any(c in text for c in ' \\"<>^`{|}'):
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or "@" in parts.netloc or ".." in parts.path or "%2e" in parts.path.lower():
        return None
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f"{shown}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))
