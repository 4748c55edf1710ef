"""Tools of other packages on this machine, by their entry points; no file of ours names them (T-16)."""

import inspect
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from roundturn.errors import AuthorError, RoundturnError
from roundturn.names import insist_free, insist_plain
from roundturn.tool import BaseTool

GROUP = "roundturn.tools"
ORIGIN = "installed"


def installed_tools(taken: Mapping[str, str]) -> Iterator[BaseTool]:
    """Each entry point of the group names a class of ours, or a function made a tool. `taken`: names, and by whom.

    Raises `AuthorError` naming the entry point and its package, whatever is wrong: what the registry would refuse is
    refused here, where it is known whose it is.
    """
    holders = dict(taken)
    for found in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            made = _made(found)
            name, who = made.spec(ORIGIN).name, type(made).__name__
            insist_plain(name, who)
            insist_free(name, who, holders.get(name))
            holders[name] = who
        except RoundturnError as fault:
            raise AuthorError(f"{_named(found)}: {fault.detail}", fault.hint) from fault
        except Exception as fault:
            raise AuthorError(f"{_named(found)}: {type(fault).__name__}: {fault}") from fault
        yield made


def _made(found: EntryPoint) -> BaseTool:
    loaded = found.load()
    if inspect.iscoroutinefunction(loaded):
        raise AuthorError("it is a function and no tool", "write `@tool(category=…)` above it")
    made = loaded() if callable(loaded) else loaded
    if not isinstance(made, BaseTool):
        raise AuthorError(
            "it is no tool", "name a subclass of BaseTool, or a function with `@tool(category=…)`"
        )
    return made


def _named(found: EntryPoint) -> str:
    package = "a package" if found.dist is None else f"package {found.dist.name} {found.dist.version}"
    return f'entry point {found.name} = "{found.value}" of {package}'
