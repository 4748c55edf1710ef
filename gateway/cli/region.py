"""Lines at the bottom of a terminal that are drawn again in their place, with text that scrolls above them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UP, TO_LINE_END, TO_SCREEN_END = "\x1b[{}A", "\x1b[K", "\x1b[J"


class Region:
    """Each change is one write that overwrites before it erases: nothing flickers.

    `write` puts text on the terminal as it is; `columns` asks how wide it is now. Whoever writes to the same
    terminal goes through `above`, or calls `clear` first.
    """

    def __init__(
        self, write: Callable[[str], None], columns: Callable[[], int], paint: Callable[[Text], str]
    ) -> None:
        self._write = write
        self._columns = columns
        self._paint = paint
        self._lines: list[str] = []
        self._widths: list[int] = []

    @property
    def is_drawn(self) -> bool:
        return bool(self._lines)

    def draw(self, lines: Sequence[Text]) -> None:
        """One cell is left free at the end: a full line makes some terminals wrap."""
        start = self._start()
        self._set(lines)
        self._write(start + self._body())

    def above(self, text: str) -> None:
        """Whole lines, each with its newline."""
        if not self._lines:
            self._write(text)
            return
        start = self._start()
        scrolled = "".join(f"{line}{TO_LINE_END}\r\n" for line in text.splitlines())
        self._write(start + scrolled + self._body())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """For a write on another stream of the same terminal."""
        start = self._start()
        self._write(start + TO_SCREEN_END)
        yield
        self._write(self._body())

    def clear(self) -> None:
        if self._lines:
            start, self._lines, self._widths = self._start(), [], []
            self._write(start + TO_SCREEN_END)

    def _set(self, lines: Sequence[Text]) -> None:
        room = max(1, self._columns() - 1)
        cut = [line.copy() for line in lines]
        for line in cut:
            line.truncate(room, overflow="ellipsis")
        self._lines = [self._paint(line) for line in cut]
        self._widths = [cell_len(line.plain) for line in cut]

    def _start(self) -> str:
        """To the first cell of what was drawn. A terminal that was made narrower has wrapped it meanwhile."""
        columns = max(1, self._columns())
        rows = sum(max(1, -(-width // columns)) for width in self._widths)
        return "\r" + (UP.format(rows - 1) if rows > 1 else "")

    def _body(self) -> str:
        return "\r\n".join(f"{line}{TO_LINE_END}" for line in self._lines) + TO_SCREEN_END


def painted(text: Text, colored: bool) -> str:
    """With the sequences of its styles, or without any."""
    console = Console(
        force_terminal=colored,
        color_system="standard" if colored else None,
        no_color=not colored,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(text, soft_wrap=True, end="")
    return captured.get()
