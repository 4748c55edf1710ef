"""Text for people: nothing that steers a terminal, times and sizes as they are read."""

import re
from datetime import UTC, datetime, timedelta

from roundturn.jsontext import clean_text, cut

# CSI, OSC and the other string sequences, then two-byte escapes; an unfinished one goes to its line's end.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Also what reorders or hides text: bidirectional controls, zero-width characters, line separators.
_HIDDEN = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
ROW_BYTES = 400
SHORT = 8  # characters of an id that people see and type; a beginning that is not unique is refused


def plain(text: str) -> str:
    """An agent's or a tool's text without control sequences; newlines and tabs stay."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", clean_text(text).replace("\r\n", "\n")))


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def brief(text: str) -> str:
    """One line of at most `ROW_BYTES`; of a longer one the beginning and the end."""
    return one_line(cut(one_line(text), ROW_BYTES))


def revealed(text: str) -> str:
    """What a person decides about: nothing is removed, what cannot be seen is written as an escape."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), clean_text(text))


def row_of(text: str) -> str:
    """`brief`, with what hides in it revealed: a row is what a person judges a call by."""
    return brief(revealed(text))


def short(name: str) -> str:
    """The beginning of an id, also in `s_…/N`."""
    kind, _, rest = name.partition("_")
    key, slash, tail = rest.partition("/")
    return f"{kind}_{key[:SHORT]}{slash}{tail}"


def grouped(digest: str) -> str:
    return " ".join(digest[start : start + 4] for start in range(0, len(digest), 4))


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def clock(at: datetime, fine: bool = False) -> str:
    """The local time of day."""
    local = at.astimezone()
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}" if fine else f"{local:%H:%M}"


def until(at: datetime, now: datetime) -> str:
    """`42 min (14:05)`, with the day when it is another."""
    return f"{span(at - now) if at > now else 'over'} ({day_clock(at, now)})"


def day_clock(at: datetime, now: datetime) -> str:
    """`14:05`, with the day when it is another."""
    local = at.astimezone()
    return clock(at) if local.date() == now.astimezone().date() else f"{local:%d %b %H:%M}"


def ago(at: datetime, now: datetime) -> str:
    return f"{span(max(now - at, timedelta(0)))} ago"


def span(length: timedelta) -> str:
    """One unit, rounded down: for how long something still is or was."""
    seconds = int(length.total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def elapsed(ms: float) -> str:
    """How long something took: `41 ms`, `38.2 s`, `1 m 24 s`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} m {seconds} s"


def tokens(count: int | None) -> str:
    if count is None:
        return "?"
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"
