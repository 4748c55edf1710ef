"""Looks for a regular expression in what it is handed, in a process of its own: some patterns never come to an end.

Started by its path, without site packages: `python -S -I searcher.py CPU_S`. It opens no file and is given no
path. On descriptor 0 comes a line of JSON `[pattern, ignore_case]`, then any number of times a line
`LENGTH ALLOWANCE` with so many bytes of a file behind it. To each goes one line of JSON on descriptor 1: a
string says what is wrong and is the last; a list has `[line number, excerpt]` of at most ALLOWANCE lines.

If the worker is killed, the end of descriptor 0 ends an idle process and the CPU limit a busy one.
"""

import json
import re
import resource
import string
import sys
from contextlib import suppress
from typing import Any

MEMORY_BYTES = 512 * 1024 * 1024
EXCERPT_CHARS = 300
BEFORE_CHARS = 100  # of a long line, shown before what was found
# As `jsontext.whole_words`, which cannot be imported here: a part of a secret is not known for one.
WORD = string.ascii_letters + string.digits + r"!#$%*+-./:=?@\^_~"


def bound(cpu_s: int) -> None:
    for what, limit in ((resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_AS, MEMORY_BYTES)):
        with suppress(ValueError, OSError):  # macOS knows no limit of address space
            resource.setrlimit(what, (limit, limit))


def say(value: Any) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


def compiled(pattern: str, ignore_case: bool) -> re.Pattern[str] | str:
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as fault:
        return str(fault)
    except (RecursionError, OverflowError, MemoryError) as fault:
        return f"it is too large ({type(fault).__name__})"


def found(pattern: re.Pattern[str], content: bytes, allowance: int) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
        line = raw.removesuffix(b"\r").decode(errors="replace")
        if at := pattern.search(line):
            lines.append((number, excerpt(line, at.start())))
            if len(lines) >= allowance:
                break
    return lines


def excerpt(line: str, start: int) -> str:
    if len(line) <= EXCERPT_CHARS:
        return line
    begin = max(0, min(start - BEFORE_CHARS, len(line) - EXCERPT_CHARS))
    shown = line[begin : begin + EXCERPT_CHARS]
    if begin + EXCERPT_CHARS < len(line):
        shown = shown.rstrip(WORD) + " [...]"
    return "[...] " + shown.lstrip(WORD) if begin else shown


def main(cpu_s: int) -> None:
    bound(cpu_s)
    requests = sys.stdin.buffer
    pattern = compiled(*json.loads(requests.readline()))
    if isinstance(pattern, str):
        say(pattern)
        return
    say([])
    while head := requests.readline():
        length, allowance = map(int, head.split())
        content = requests.read(length)
        if len(content) < length:
            return
        say(found(pattern, content, allowance) if content else [])


if __name__ == "__main__":
    main(int(sys.argv[1]))
