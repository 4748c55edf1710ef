"""Options that many commands share."""

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from gateway.color import ColorChoice
from roundturn.mode import RunMode

Home = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="Where the state lives (or ROUNDTURN_HOME; .roundturn)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="One JSON object a line on stdout.")]
Color = Annotated[ColorChoice, typer.Option("--color", help="Colour on the terminal.")]
Width = Annotated[int | None, typer.Option("--width", min=20, metavar="N", help="Columns to use.")]
Header = Annotated[bool, typer.Option("--header", help="Column names as the first line of a pipe.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the id and nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log lines on stderr, tracebacks with errors.")]
Actor = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who you are (your login name).")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")]
Mode = Annotated[RunMode, typer.Option("--mode", help="The run mode: plan only reads.")]


def actor(given: str | None) -> str:
    """The name given, else the login name; a claim either way."""
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"
