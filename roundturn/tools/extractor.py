"""Makes text of one page, in a process of its own: a page can be written so that reading it takes hours or gigabytes.

Started by its path: `python -I extractor.py KIND CHARSET URL OFFSET ROOM`, KIND `html` or `text`. The page is on
descriptor 0; on descriptor 1 goes one JSON object with `title`, `text`, `total` and `next` (both in characters), or
`fault`. Limit: a page that takes over this process through a fault in the parser runs as the worker's user.
"""

import codecs
import json
import re
import resource
import sys
from contextlib import suppress

CPU_S = 10
MEMORY_BYTES = 1024 * 1024 * 1024
SNIFFED_BYTES = 64 * 1024
HEAD_BYTES = 2 * 1024
MAX_TITLE_CHARS = 200
OUTSIDE = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.system")
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
WINDOWS = "cp1252"
AS_WINDOWS = {"iso8859-1", "ascii"}  # what such pages mean (Encoding standard)
DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""")


def bound() -> None:
    """No more than this of processor and memory, no files, and nothing of network or processes from Python code."""
    for limit, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # not every system has every one
            resource.setrlimit(limit, (most, most))
    sys.addaudithook(_stay)


def _stay(event: str, _: object) -> None:
    if event.startswith(OUTSIDE):
        raise PermissionError(event)


def decode(raw: bytes, charset: str) -> str:
    """By its first bytes, by what the server said, by what the page says, by trying."""
    for mark, name in BOMS:
        if raw.startswith(mark):
            return raw.decode(name, "replace")
    declared = DECLARED.search(raw[:HEAD_BYTES])
    for name in (charset, declared.group(1).decode("ascii") if declared else ""):
        with suppress(LookupError, ValueError):  # no such charset, or one that is no text encoding
            if name:
                known = codecs.lookup(name).name
                return raw.decode(WINDOWS if known in AS_WINDOWS else known, "replace")
    with suppress(UnicodeDecodeError):
        return raw.decode()
    from trafilatura.utils import detect_encoding

    guesses = detect_encoding(raw[:SNIFFED_BYTES])
    return raw.decode(guesses[0] if guesses else WINDOWS, "replace")


def read(text: str, url: str) -> tuple[str, str]:
    """Title and readable text of a page of HTML; all its text where there is no main one."""
    import trafilatura
    from trafilatura.utils import load_html

    whole = f"<html><body><div>{text}</div></body></html>"
    if (tree := load_html(text)) is None:
        return "", trafilatura.html2txt(whole)
    title = " ".join((tree.findtext(".//title") or "").split())[:MAX_TITLE_CHARS]
    tree.make_links_absolute(url, handle_failures="ignore")  # trafilatura takes them all from the root
    found = trafilatura.extract(
        tree,
        output_format="markdown",
        include_links=True,
        include_comments=False,
        favor_recall=True,
    )
    return title, found or trafilatura.html2txt(whole)


def answer(argv: list[str], raw: bytes) -> dict[str, object]:
    kind, charset, url, offset, room = argv
    text = decode(raw, charset)
    if "\0" in text[:SNIFFED_BYTES]:
        return {"fault": "binary"}
    title = ""
    if kind == "html":
        title, text = read(text, url)
    begin = min(int(offset), len(text))
    shown = text[begin : begin + int(room)].encode("utf-8", "replace")[: int(room)].decode("utf-8", "ignore")
    return {"title": title, "text": shown, "total": len(text), "next": begin + len(shown)}


if __name__ == "__main__":
    bound()
    sys.stdout.write(json.dumps(answer(sys.argv[1:], sys.stdin.buffer.read())))
