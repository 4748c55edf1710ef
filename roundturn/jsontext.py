"""Text and JSON from tools and models become what every store, wire and digest can hold (P08, P19, P31)."""

import hashlib
import json
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785

SAFE_INTEGER = 2**53 - 1  # RFC 8785 section 3.2.2.3: beyond this a double loses digits
MAX_DEPTH = 64  # deeper nesting than any tool needs; json itself gives up near 1,000
MAX_INTEGER_BITS = 14_000  # Python writes and reads no integer of more than 4,300 digits


class NotJson(ValueError):
    """The text is not a JSON object, or holds what strict JSON has no word for."""


def clean_text(text: str) -> str:
    """Without NUL (PostgreSQL refuses it) and without lone surrogates (UTF-8 has none): both become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_json(value: Any, depth: int = 0) -> Any:
    """A copy that is strict JSON with clean text. Raises `NotJson` naming the first value that is not."""
    if depth > MAX_DEPTH:
        raise NotJson(f"nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise NotJson(f"an integer of {value.bit_length()} bits is too long")
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{value} is not a JSON number")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise NotJson("an object key is not a string")
        cleaned = {clean_text(key): clean_json(item, depth + 1) for key, item in value.items()}
        if len(cleaned) != len(value):
            raise NotJson("two keys differ only in characters that no text may hold")
        return cleaned
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [clean_json(item, depth + 1) for item in value]
    raise NotJson(f"a value of type {type(value).__name__} has no JSON form")


def recordable(value: Any, depth: int = 0) -> Any:
    """`clean_json` for records, which one odd value must not lose: what has no JSON form becomes its text (P31)."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {clean_text(str(key)): recordable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < MAX_DEPTH:
        return [recordable(item, depth + 1) for item in value]
    try:
        return clean_json(value, depth)
    except NotJson:
        return clean_text(_told(value))


def _told(value: Any) -> str:
    if isinstance(value, list | tuple | Mapping):
        return "(nested too deep)"
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - somebody else's __str__, or an integer that is too long to write
        return f"({type(value).__name__})"


def parse_object(text: str) -> dict[str, Any]:
    """The object that the model sent as arguments; strict, never repaired, never `{}` in place of garbage (P06).

    Raises `NotJson` with the place of the fault.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except RecursionError:
        raise NotJson(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as fault:
        raise NotJson(f"{fault.msg} at character {fault.pos}") from None
    except NotJson:
        raise
    except ValueError as fault:  # an integer of more digits than Python converts
        raise NotJson(str(fault)) from None
    if not isinstance(value, dict):
        raise NotJson(f"expected an object, got {type(value).__name__}")
    cleaned: dict[str, Any] = clean_json(value)
    return cleaned


def _refuse_constant(name: str) -> Any:
    raise NotJson(f"{name} is not a JSON number")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("a key is given twice")
    return found


def dump(value: Any) -> str:
    """Compact JSON in the order given; the input must be clean."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 in hex over canonical JSON (RFC 8785); integers beyond 2^53 count as strings (design section 2).

    Those strings begin with NUL, which clean text never holds: the integer and its digits in quotes differ.
    Raises `NotJson`.
    """
    try:
        return hashlib.sha256(rfc8785.dumps(_narrow_integers(value))).hexdigest()
    except (ValueError, RecursionError) as fault:
        raise NotJson(f"no canonical form: {fault}") from None


def _narrow_integers(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else f"\x00{value}"
    if isinstance(value, dict):
        return {key: _narrow_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_narrow_integers(item) for item in value]
    return value


LONGEST_BROKEN = 1_024  # characters of a broken word that are left out at most
WORD = string.ascii_letters + string.digits + r"!#$%*+-./:=?@\^_~"


def whole_words(text: str, *, from_middle: bool = False) -> str:
    """Without the word that a cut went through at the end, or at the beginning: a part of a secret is not known for one."""
    if from_middle:
        beginning = text[:LONGEST_BROKEN]
        return text[len(beginning) - len(beginning.lstrip(WORD)) :]
    end = text[-LONGEST_BROKEN:]
    return text[: len(text) - len(end) + len(end.rstrip(WORD))]


def cut(text: str, budget_bytes: int) -> str:
    """Head and tail of `text` with a marker that counts what is missing, at most `budget_bytes` of UTF-8 (P27)."""
    raw = text.encode()
    if len(raw) <= budget_bytes:
        return text
    marker = f"\n[... {len(raw)} bytes in all, the middle is cut ...]\n"
    room = budget_bytes - len(marker)
    if room <= 0:
        return raw[: max(budget_bytes, 0)].decode(errors="ignore")
    head, tail = raw[: room - room // 3], raw[len(raw) - room // 3 :]
    return head.decode(errors="ignore") + marker + tail.decode(errors="ignore")
