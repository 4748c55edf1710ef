"""What is printed where: data on stdout, talk on stderr, for a terminal, a pipe or a machine."""

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

from gateway.cli.text import one_line, plain
from gateway.color import ColorChoice, colored, moves
from roundturn.jsontext import clean_json

if TYPE_CHECKING:
    from rich.text import Text

    from gateway.cli.exits import Kind
    from gateway.cli.region import Region

Mode = Literal["text", "json", "jsonl"]
LINE_BYTES = 4096  # a terminal gives a line at a time and none is longer
ASCII = str.maketrans({
    "✓": "+", "✗": "x", "▲": "!", "■": "#", "·": "-", "…": "...", "›": ">", "├": "+", "└": "+", "│": "|", "─": "-",
    "↓": "<", **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*")})  # fmt: skip


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
        self._region: Region | None = None

    @property
    def progress(self) -> bool:
        """Whether rows about a run are wanted: a script that reads JSON wants nothing else on stderr."""
        return not self.quiet and (self.mode == "text" or self.talks_to_person)

    @property
    def moves(self) -> bool:
        """Whether `draw` may be used."""
        return moves(sys.stderr)

    def can_ask(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and self.talks_to_person

    # -- data

    def data(self, text: str) -> None:
        """A line or more of an answer on stdout."""
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

    def rows(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        cut: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """A table on a terminal, where `cut` and `spare` make room (see `table.fitted`); whole lines in a pipe."""
        if self.terminal:
            self._table(columns, rows, cut, spare)
            return
        if self.header:
            self.fields([column.lower().replace(" ", "_") for column in columns])
        for row in rows:
            self.fields(row)

    def _table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        cut: Sequence[str],
        spare: Sequence[str],
    ) -> None:
        from gateway.cli.table import fitted

        room = self.width or columns_of(sys.stdout)
        shown = [[one_line(value) for value in row] for row in rows]
        console = self._console(sys.stdout)
        with console.capture() as captured:
            for line in fitted(columns, shown, room, cut, spare):
                console.print(line, soft_wrap=True)
        self._write(sys.stdout, captured.get())

    # -- talk

    def talk(self, text: str = "", style: str = "") -> None:
        """A line for people, whole."""
        text = plain(text)
        if style and colored(sys.stderr, self._color):
            from rich.text import Text

            text = self._painted(Text(text, style=style))
        self._write(sys.stderr, text + "\n")

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

    def draw(self, lines: "Sequence[Text]") -> None:
        """Lines below everything else, which the next ones replace; where `moves`."""
        if self._region is None:
            from gateway.cli.region import Region

            self._region = Region(lambda text: self._put(sys.stderr, text), self.columns, self._painted)
        self._region.draw(lines)

    def calm(self) -> None:
        """What was drawn is gone until the next `draw`."""
        if self._region is not None:
            self._region.clear()

    def columns(self) -> int:
        return self.width or columns_of(sys.stderr)

    def _painted(self, text: "Text") -> str:
        from gateway.cli.region import painted

        return painted(text, colored(sys.stderr, self._color))

    # -- streams

    def _write(self, stream: TextIO, text: str) -> None:
        """Whole lines, above what is drawn."""
        if self._region is None or not self._region.is_drawn or not (self.terminal or stream is sys.stderr):
            self._put(stream, text)
        elif stream is sys.stderr:
            self._region.above(text)
        else:
            with self._region.aside():
                self._put(stream, text)

    def _put(self, stream: TextIO, text: str) -> None:
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
            width=self.width or columns_of(stream),
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


def columns_of(stream: TextIO) -> int:
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
