"""Whether a stream gets colour, and whether lines on it are drawn again: decided here for every command."""

import os
from typing import Literal, TextIO

ColorChoice = Literal["auto", "always", "never"]


def colored(stream: TextIO, choice: ColorChoice = "auto") -> bool:
    """What was asked for, then NO_COLOR, FORCE_COLOR, and a terminal that is neither dumb nor a CI's."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return moves(stream)


def moves(stream: TextIO) -> bool:
    """A terminal where the cursor can go up, and where a person watches."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
