"""Whether an argument is what a rule means, however it is spelt: commands are parsed, paths and addresses made plain."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from roundturn.jsontext import dump
from roundturn.shell import command_matches, judge
from roundturn.spelling import glob_fits, path_fits, url_fits
from roundturn.tool import ArgumentKind, ToolSpec


class ArgumentMatch(BaseModel, frozen=True, extra="forbid"):
    """One argument, by its dotted name: a glob on its text, or the exact value. Of a list, each item is looked at."""

    name: str = Field(min_length=1)
    glob: str | None = None
    equals: str | int | Annotated[float, Field(allow_inf_nan=False)] | bool | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.glob is None) == (self.equals is None):
            raise ValueError("an argument is matched by either glob or equals")
        return self

    def fits(self, spec: ToolSpec, arguments: Mapping[str, Any], workdir: str, exactly: bool) -> bool:
        """`exactly`: for a rule that loosens, where every item must fit, in a spelling that means nothing else.

        For one that narrows, any item in any of its spellings is enough.
        """
        values = list(_values(arguments, self.name))
        enough = all if exactly else any
        kind = spec.argument_kinds.get(self.name)
        return bool(values) and enough(self._fits_one(value, kind, workdir, exactly) for value in values)

    def _fits_one(self, value: Any, kind: ArgumentKind | None, workdir: str, exactly: bool) -> bool:
        if self.glob is None and not isinstance(self.equals, str):
            return _is_same(self.equals, value)
        is_glob = self.glob is not None
        wanted = self.glob if self.glob is not None else str(self.equals)
        text = value if isinstance(value, str) else dump(value)
        match kind:
            case "command":
                return _command_fits(wanted, text, exactly, is_glob)
            case "path":
                return path_fits(wanted, text, workdir, exactly, is_glob)
            case "url":
                return url_fits(wanted, text, exactly, is_glob)
            case _:
                return glob_fits(wanted, text, exactly) if is_glob else value == wanted


def _is_same(wanted: Any, value: Any) -> bool:
    """A number is one however it is written; true is none."""
    return isinstance(wanted, bool) is isinstance(value, bool) and bool(value == wanted)


def _command_fits(wanted: str, text: str, exactly: bool, is_glob: bool) -> bool:
    if not exactly:
        return command_matches(wanted, text, exactly) or glob_fits(wanted, text, exactly)
    if is_glob:
        return command_matches(wanted, text, exactly)
    words = judge(text).plain
    return words is not None and words == judge(wanted).plain


def unjudgeable(spec: ToolSpec, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Why a command among the arguments is more than one plain command, so that no rule may answer for a person (P128)."""
    for name, kind in spec.argument_kinds.items():
        for command in _values(arguments, name) if kind == "command" else ():
            if isinstance(command, str) and (judged := judge(command)).plain is None:
                yield f"the command is not a plain one: {judged.why}"


def _values(found: Any, name: str) -> Iterator[Any]:
    """What stands at a dotted name, through lists and of lists the items."""
    if isinstance(found, list | tuple):
        for item in found:
            yield from _values(item, name)
        return
    if not name:
        yield found
        return
    first, _, rest = name.partition(".")
    if isinstance(found, Mapping) and first in found:
        yield from _values(found[first], rest)
