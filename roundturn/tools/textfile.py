"""What counts as a text file, and what the model is told of a path that leads to none (T-11)."""

import codecs
import difflib
import os
from itertools import islice

from roundturn.errors import ToolFailed
from roundturn.tool import ToolContext
from roundturn.tools import paths

SAMPLE_BYTES = 8 * 1024  # where NUL or undecodable bytes show that a file is not text
MAX_UNDECODABLE = 0.01  # of the characters; one stray Latin-1 letter in a log passes, an image does not
SPARED = 8  # undecodable bytes in a slice of any size
NEAR_NAMES = 5
LISTED_NAMES = 2_000


def is_binary(raw: bytes, spared: int = 0) -> bool:
    """Of a part of a file; its last character may be cut."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
    bad = text.count("\ufffd") - raw.count(b"\xef\xbf\xbd") + raw.count(0)
    return bad > max(len(text) * MAX_UNDECODABLE, spared)


def looks_binary(raw: bytes) -> bool:
    """Of a whole file or its beginning, where one NUL is enough."""
    return b"\x00" in raw or is_binary(raw)


def binary(path: str) -> ToolFailed:
    return ToolFailed(
        f"{path} is not UTF-8 text (NUL or undecodable bytes); look at such files with a command",
        "binary_file",
    )


def is_directory(path: str) -> ToolFailed:
    return ToolFailed(f"{path} is a directory; name a file in it", "is_directory")


def not_found(path: str, context: ToolContext, what: str = "file") -> ToolFailed:
    """With the names that the model may have meant, bounded: directories can have millions."""
    try:
        with paths.confined_place(path, context) as place, os.scandir(place.directory) as entries:
            names = sorted(entry.name for entry in islice(entries, LISTED_NAMES))
            near = difflib.get_close_matches(place.name, names, NEAR_NAMES, 0.5) or names[:NEAR_NAMES]
    except FileNotFoundError:
        return ToolFailed(f"There is no {what} {path}: a directory on the way is missing", "not_found")
    shown = ", ".join(paths.shown(name) for name in near)
    return ToolFailed(f"There is no {what} {path}; beside it: {shown or 'nothing'}", "not_found")
