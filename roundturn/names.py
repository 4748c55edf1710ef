"""Names of tools from elsewhere in the form that model APIs accept, one for each (origin, name) and no other (P28, P30)."""

import hashlib
import re

from roundturn.errors import AuthorError

WIRE_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PLAIN = re.compile(r"[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*")
SEPARATOR = "__"  # in no name of ours, and once in a plain name from elsewhere
HASH_CHARACTERS = 16
ROOM = 64 - HASH_CHARACTERS - 2 * len(SEPARATOR)


def is_plain(name: str) -> bool:
    """Whether a name of ours may stand on the wire as it is."""
    return len(name) <= 64 and PLAIN.fullmatch(name) is not None


def insist_plain(name: str, who: str) -> None:
    """`who`: the tool's class. Raises `AuthorError`."""
    if not is_plain(name):
        raise AuthorError(
            f"tool name {name!r} of {who} is not accepted by model APIs",
            f"letters, digits, dashes and single underscores, 64 at most: {PLAIN.pattern}",
        )


def insist_free(name: str, who: str, holder: str | None) -> None:
    """`holder`: the class that has the name already. Raises `AuthorError`: no tool shadows another (P28)."""
    if holder is not None:
        raise AuthorError(f"tool name {name} is taken by {holder}", f"rename {who}")


def wire_name(server: str, tool: str) -> str:
    """`server__tool` where both are plain and it is short enough; else as much of them as is, and a hash of both.

    The first form has one `__`, the second two: neither can be the other, and no name of ours has any.
    """
    if PLAIN.fullmatch(server) and PLAIN.fullmatch(tool) and len(server) + len(tool) + 2 <= 64:
        return f"{server}{SEPARATOR}{tool}"
    told = hashlib.sha256(f"{len(server)}:{server}{tool}".encode("utf-8", "surrogatepass")).hexdigest()
    return SEPARATOR.join((_slug(server, ROOM // 3), _slug(tool, ROOM - ROOM // 3), told[:HASH_CHARACTERS]))


def _slug(name: str, room: int) -> str:
    kept = re.sub(r"[^a-zA-Z0-9-]+", "_", name[: 4 * room]).strip("_")[:room].strip("_")
    return kept or "x"
