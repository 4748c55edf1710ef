"""Programs that only read, each with the options that keep it so; any other option is taken for one that writes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Opening a device can act (a tape rewinds, a watchdog barks) or never end; files of the kernel can do both.
NO_FILES = frozenset({"dev", "proc", "sys"})
NUMBER = re.compile(r"-[0-9]+")


@dataclass(frozen=True)
class Reader:
    """`flags`: letters without a value; `valued`: letters with one; `long`: whole names; `operands`: at most so many."""

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 1000
    operand_begins: str = ""
    counts: bool = (
        False  # takes `-5`; not `-5c`, whose next word is a value to one program and a file to another
    )
    dashes_end: bool = (
        True  # `--` ends the options; to `test` it is a word, and what follows is still evaluated
    )


def _long(names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in names.split())


READERS = {
    "basename": Reader(),
    "cat": Reader("nAbeEstTuv", long=_long("number show-all")),
    "cmp": Reader("ls", operands=2),
    "cut": Reader("s", "dfcb", _long("delimiter fields characters bytes")),
    "date": Reader("uR", long=_long("utc iso-8601"), operands=1, operand_begins="+"),
    "df": Reader("hTika", long=_long("human-readable")),
    "diff": Reader("ubrqiwBNs", "U", _long("unified brief recursive"), 2),
    "dirname": Reader(),
    "du": Reader("shacxk", "d", _long("human-readable summarize max-depth")),
    "echo": Reader("ne"),
    "false": Reader(),
    "grep": Reader(
        "inrvclLowxEFHhqsaI",
        "ABCme",
        _long("include exclude ignore-case recursive line-number count"),
        counts=True,
    ),
    "head": Reader("qv", "nc", _long("lines bytes"), counts=True),
    "id": Reader("ugGnr", operands=1),
    "ls": Reader(
        "aAlhrtSRF1dinsgkLp", long=_long("all almost-all human-readable reverse recursive directory")
    ),
    "nl": Reader(),
    "pwd": Reader("LP", operands=0),
    "readlink": Reader("fen"),
    "realpath": Reader("ems"),
    "sha256sum": Reader(),
    "sort": Reader("rnufbdhV", "kt", _long("reverse numeric-sort unique key field-separator")),
    "stat": Reader("Lf", "c", _long("format")),
    "tail": Reader("qv", "nc", _long("lines bytes"), counts=True),  # following does not end
    "test": Reader(
        "bcdefghknprsuwxzLNOGS", dashes_end=False
    ),  # of its options, -v evaluates what it is given
    "tr": Reader("dsc", operands=2),
    "true": Reader(),
    "uname": Reader("asnrvmpio", operands=0),
    "uniq": Reader("cdui", "fsw", operands=1),  # a second operand is written
    "wc": Reader("lwcmL", long=_long("lines words bytes chars")),
    "whoami": Reader(operands=0),
}  # git is not here: a repository's own settings make it run programs


def only_reads(words: Sequence[str]) -> bool:
    """Of the words of one plain command. Options may stand after operands, as GNU programs take them."""
    reader = READERS.get(words[0])
    if reader is None:
        return False
    operands = _operands(reader, words[1:])
    return (
        operands is not None
        and len(operands) <= reader.operands
        and all(operand.startswith(reader.operand_begins) for operand in operands)
        and not any(map(_is_no_file, operands))
    )


def _operands(reader: Reader, words: Sequence[str]) -> list[str] | None:
    """What is neither option nor an option's value; None when an option is not on the list."""
    operands: list[str] = []
    rest = iter(words)
    before = ""
    for word in rest:
        if word == "--":
            # After `--lines` it is that option's value, and what follows may be options.
            ends = reader.dashes_end and (not before.startswith("--") or "=" in before)
            return [*operands, *rest] if ends else None
        if word.startswith("--"):
            if word.partition("=")[0] not in reader.long:
                return None
        elif word.startswith("-") and len(word) > 1:
            counted = reader.counts and NUMBER.fullmatch(word) is not None
            if not counted and not _short(reader, word[1:], rest):
                return None
        else:
            operands.append(word)
        before = word
    return operands


def _short(reader: Reader, letters: str, rest: Iterator[str]) -> bool:
    for place, letter in enumerate(letters):
        if letter in reader.valued:
            value = letters[place + 1 :] or next(rest, "")
            # Taken for a value by one edition of the program, for an option by another.
            return not value.startswith("-") or NUMBER.fullmatch(value) is not None
        if letter not in reader.flags:
            return False
    return True


def _is_no_file(operand: str) -> bool:
    parts = [part.lower() for part in operand.split("/") if part not in ("", ".")]
    if operand == "/dev/null" or not NO_FILES.intersection(parts):
        return False
    return ".." in parts or (operand.startswith("/") and parts[0] in NO_FILES)
