"""Tools of other packages on this machine, by their entry points; no file of ours names them (T-16)."""

from collections.abc import Iterator
from importlib.metadata import entry_points

from roundturn.errors import AuthorError
from roundturn.tool import BaseTool

GROUP = "roundturn.tools"
ORIGIN = "installed"


def installed_tools() -> Iterator[BaseTool]:
    """Each entry point of the group names a class of ours, or a function made a tool.

    Raises `AuthorError` naming the entry point that cannot be used.
    """
    for found in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            made = found.load()()
        except Exception as fault:
            raise AuthorError(f"tool {found.value} of {found.group} cannot be loaded: {fault}") from fault
        if not isinstance(made, BaseTool):
            raise AuthorError(f"{found.value} of {found.group} is no tool", "name a subclass of BaseTool")
        yield made
