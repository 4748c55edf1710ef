"""What is printed where: data on stdout, talk on stderr, for a terminal, a pipe or a machine."""

import asyncio
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

from gateway.cli.text import one_line, plain
from gateway.color import ColorChoice, colored
from roundturn.jsontext import clean_json

if TYPE_CHECKING:
    from gateway.cli.exits import Kind

Mode = Literal["text", "json", "jsonl"]
LINE_BYTES = 4096  # a terminal gives a line at a time and none is longer
ASCII = str.maketrans({"✓": "+", "✗": "x", "▲": "!", "■": "#", "·": "-", "…": "...", "›": ">", "⠋": "*"})  # fmt: skip


class Screen:
    """`terminal` is about stdout. Everything passes through here, so that nothing can steer a terminal."""

    def __init__(
        self,
        mode: Mode = "text",
        *,
        color: ColorChoice = "auto",
        width: int | None = None,
        header: bool = False,
        quiet: bool = False,
    ) -> None:
        self.mode = mode
        self.terminal = sys.stdout.isatty()
        self.talks_to_person = sys.stderr.isatty()
        self.header = header
        self.quiet = quiet
        self.width = width
        self._color = color
        self._transient = False

    @property
    def progress(self) -> bool:
        """Whether rows about a run are wanted: a script that reads JSON wants nothing else on stderr."""
        return not self.quiet and (self.mode == "text" or self.talks_to_person)

    def can_ask(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and self.talks_to_person

    # -- data

    def data(self, text: str) -> None:
        """A line or more of an answer on stdout."""
        self.calm()
        self._write(sys.stdout, plain(text).rstrip("\n") + "\n")

    def document(self, value: Any) -> None:
        self._write(sys.stdout, _json(value, sys.stdout) + "\n")

    def items(self, items: Sequence[dict[str, Any]]) -> None:
        """A list as a machine reads it: one document, or one object a line."""
        if self.mode == "jsonl":
            for item in items:
                self.document(item)
        else:
            self.document({"items": list(items), "next": None})

    def fields(self, values: Sequence[str]) -> None:
        """One line of a pipe: tab separated, nothing cut, nothing in a value that looks like a separator."""
        self._write(sys.stdout, "\t".join(one_line(value) for value in values) + "\n")

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table on a terminal, lines in a pipe."""
        if self.terminal:
            self._table(columns, rows)
            return
        if self.header:
            self.fields([column.lower().replace(" ", "_") for column in columns])
        for row in rows:
            self.fields(row)

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(column, no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*(Text(one_line(value)) for value in row))
        console = self._console(sys.stdout)
        with console.capture() as captured:
            console.print(table)
        self._write(sys.stdout, captured.get())

    # -- talk

    def talk(self, text: str = "", style: str = "") -> None:
        """A line for people, whole."""
        self.calm()
        text = plain(text)
        if style and colored(sys.stderr, self._color):
            from rich.text import Text

            console = self._console(sys.stderr)
            with console.capture() as captured:
                console.print(Text(text, style=style), soft_wrap=True, end="")
            text = captured.get()
        self._write(sys.stderr, text + "\n")

    def row(self, text: str, style: str = "") -> None:
        """A row of progress: cut to a terminal's width, whole elsewhere."""
        room = (self.width or _columns(sys.stderr)) - 1
        if self.talks_to_person and len(text) > room:
            text = f"{text[: room - 1]}…"
        self.talk(text, style)

    def fault(self, kind: "Kind", detail: str, hint: str) -> None:
        """What went wrong, why, and what to do next."""
        self.calm()
        if self.mode == "text":
            self.talk(f"error: {detail}", "red")
            if hint:
                self.talk(f"  {hint}")
            return
        error = {"type": kind.type, "title": kind.title, "detail": detail, "hint": hint}
        self._write(sys.stderr, _json({"error": error}, sys.stderr) + "\n")

    async def ask(self, question: str) -> str:
        """The line that was typed; empty at the end of input."""
        self.calm()
        self._write(sys.stderr, question)
        return await typed_line()

    def transient(self, text: str) -> None:
        """A line that the next one replaces; only on a terminal."""
        room = (self.width or _columns(sys.stderr)) - 1
        self._write(sys.stderr, f"\r\x1b[K{plain(text)[:room]}")
        self._transient = True

    def calm(self) -> None:
        if self._transient:
            self._transient = False
            self._write(sys.stderr, "\r\x1b[K")

    # -- streams

    def _write(self, stream: TextIO, text: str) -> None:
        encoding = (stream.encoding or "").lower().replace("-", "")
        try:
            _write_all(stream, text if encoding == "utf8" else text.translate(ASCII))
        except BrokenPipeError:
            end_by_pipe()
        except OSError:
            if stream is sys.stdout:  # talk that nobody can hear is no failure, an answer that is lost is one
                raise

    def _console(self, stream: TextIO) -> Any:
        from rich.console import Console

        painted = colored(stream, self._color)
        return Console(
            file=stream,
            force_terminal=painted,
            color_system="standard" if painted else None,
            no_color=not painted,
            width=self.width or _columns(stream),
            markup=False,
            emoji=False,
            highlight=False,
        )


async def typed_line() -> str:
    """From standard input, and Ctrl-C can still interrupt it: no thread sits in a read."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, LINE_BYTES))

    loop.add_reader(descriptor, read)
    try:
        return (await typed).decode(errors="replace")
    finally:
        loop.remove_reader(descriptor)


def end_by_pipe() -> NoReturn:
    """The reader of our output has left: end as every Unix filter does, without a word."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _write_all(stream: TextIO, text: str) -> None:
    """Past Python's buffer, which takes a reader that leaves in the middle of a long write for success."""
    stream.flush()
    rest = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while rest:
        try:
            rest = rest[os.write(stream.fileno(), rest) :]
        except BlockingIOError:  # whoever started us shares a pipe that does not block
            select.select((), (stream,), ())


def _columns(stream: TextIO) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _json(value: Any, stream: TextIO) -> str:
    """Text is left as it is (JSON escapes what steers a terminal), but only where the stream can carry it."""
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(clean_json(value), ensure_ascii=not utf8)
    # C1 controls are legal in JSON and still steer some terminals.
    return "".join(f"\\u{ord(c):04x}" if "\x7f" <= c <= "\x9f" else c for c in text) if utf8 else text


class Pulse:
    """Says that something still goes on: a moving line on a terminal, a line every 15 s elsewhere."""

    FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    FIRST_S, TICK_S, LINE_S = 1.0, 0.1, 15.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.doing = ""
        self._since = time.monotonic()

    def now(self, doing: str) -> None:
        if doing != self.doing:
            self.doing, self._since = doing, time.monotonic()

    async def run(self) -> None:
        moving = self._screen.talks_to_person and not os.environ.get("CI")
        beat = 0
        while True:
            await asyncio.sleep(self.TICK_S if moving else self.LINE_S)
            seconds = time.monotonic() - self._since
            if not self.doing or seconds < self.FIRST_S:
                continue
            beat += 1
            if moving:
                self._screen.transient(f"  {self.FRAMES[beat % 10]} {self.doing}  {seconds:.0f} s")
            else:
                self._screen.talk(f"  … {self.doing}, {seconds:.0f} s")
