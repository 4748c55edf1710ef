"""Programs that only read, each with the options that keep it so; any other option is taken for one that writes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reader:
    """`flags`: letters without a value; `valued`: letters with one; `long`: whole names; `operands`: at most so many."""

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 1000
    operand_begins: str = ""


def _long(names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in names.split())


READERS = {
    "basename": Reader(),
    "cat": Reader("nAbEsTv", long=_long("number show-all")),
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
        "inrvclLowxEFHhqsaI", "ABCme", _long("include exclude ignore-case recursive line-number count")
    ),
    "head": Reader("qv", "nc", _long("lines bytes")),
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
    "tail": Reader("qv", "nc", _long("lines bytes")),  # following does not end
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
    operands: list[str] = []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            if word.split("=", 1)[0] not in reader.long:
                return False
        elif word.startswith("-") and len(word) > 1:
            if not _short(reader, word[1:], rest):
                return False
        else:
            operands.append(word)
    return len(operands) <= reader.operands and all(
        operand.startswith(reader.operand_begins) for operand in operands
    )


def _short(reader: Reader, letters: str, rest: list[str]) -> bool:
    for place, letter in enumerate(letters):
        if letter in reader.valued:
            if place == len(letters) - 1 and rest:
                rest.pop(0)  # its value, whatever it looks like
            return True
        if letter not in reader.flags:
            return False
    return True
