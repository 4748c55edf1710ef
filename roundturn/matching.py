"""Whether an argument is what a rule means, however it is spelt: commands are parsed, paths and addresses made plain."""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from pydantic import BaseModel, Field, model_validator

from roundturn.glob import first_match
from roundturn.jsontext import dump
from roundturn.shell import command_matches, judge
from roundturn.tool import ArgumentKind, ToolSpec

MISSING = object()
URL_CHARACTERS = (
    ":/?#[]@!$&'()*+,;=%~-._"  # with letters and digits: what an address is written in (RFC 3986)
)


class ArgumentMatch(BaseModel, frozen=True, extra="forbid"):
    """One argument, by its dotted name: a glob on its text, or the exact value."""

    name: str = Field(min_length=1)
    glob: str | None = None
    equals: str | int | bool | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.glob is None) == (self.equals is None):
            raise ValueError("an argument is matched by either glob or equals")
        return self

    def fits(self, spec: ToolSpec, arguments: Mapping[str, Any], workdir: str, exactly: bool) -> bool:
        """`exactly`: for a rule that loosens, where a spelling that could mean something else does not match.

        For one that narrows, any of the spellings is enough: it is better to refuse too much than too little.
        """
        value = _at(arguments, self.name)
        if value is MISSING:
            return False
        kind = spec.argument_kinds.get(self.name)
        if self.glob is not None:
            text = value if isinstance(value, str) else dump(value)
            return _glob_fits(self.glob, text, kind, workdir, exactly)
        if kind is not None and isinstance(self.equals, str) and isinstance(value, str):
            return _is_same(self.equals, value, kind, workdir, exactly)
        return type(value) is type(self.equals) and value == self.equals


def _glob_fits(glob: str, text: str, kind: ArgumentKind | None, workdir: str, exactly: bool) -> bool:
    if kind == "command":
        return command_matches(glob, text, exactly) or (not exactly and _any_fits(glob, (text,)))
    spellings = _spellings(text, kind, workdir, exactly)
    return not exactly if spellings is None else _any_fits(glob, spellings)


def _any_fits(glob: str, texts: tuple[str, ...]) -> bool:
    return any(first_match((glob,), text) is not None for text in texts)


def _is_same(wanted: str, text: str, kind: ArgumentKind, workdir: str, exactly: bool) -> bool:
    """As `_glob_fits`, for a value that has no wildcards; capitals only matter to a rule that loosens."""
    if kind == "command":
        if exactly:
            words = judge(text).plain
            return words is not None and words == judge(wanted).plain
        return command_matches(wanted, text, exactly=False) or text.casefold() == wanted.casefold()
    one, other = (_spellings(each, kind, workdir, exactly) for each in (wanted, text))
    if one is None or other is None:
        return not exactly
    if exactly:
        return not set(one).isdisjoint(other)
    return not {each.casefold() for each in one}.isdisjoint(each.casefold() for each in other)


def _spellings(text: str, kind: ArgumentKind | None, workdir: str, exactly: bool) -> tuple[str, ...] | None:
    """What the text may be called. None: nobody can tell what it means."""
    match kind:
        case "path":
            if exactly and ".." in PurePosixPath(text).parts:  # it may lead out of what the rule names
                return None
            return (_plain_path(text, workdir),)
        case "url":
            return _exact_url(text) if exactly else _url_spellings(text)
        case _:
            return (text,)


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


def _exact_url(text: str) -> tuple[str] | None:
    """None for an address that two readers could understand differently."""
    if not text.isascii() or not text.isprintable() or any(c in text for c in ' \\"<>^`{|}'):
        return None
    parts = _clear_url(text)
    return None if parts is None else (urlunsplit(parts),)


def _url_spellings(text: str) -> tuple[str, ...] | None:
    """As `_exact_url`, but what a reader would mend is mended first, and hidden letters are shown too."""
    parts = _clear_url(quote(text.strip(), safe=URL_CHARACTERS))
    if parts is None or "%" in parts.netloc:
        return None
    told = urlunsplit(parts)
    return (text, told, unquote(told))


def _clear_url(text: str) -> SplitResult | None:
    """Small letters in the host, no final dot in it, no port that is the usual one, a path, no fragment."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or "@" in parts.netloc or ".." in parts.path or "%2e" in parts.path.lower():
        return None
    host = host.rstrip(".")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f"{shown}:{port}"
    return SplitResult(parts.scheme, netloc, parts.path or "/", parts.query, "")
