"""A terminal's grid of cells, as small as the tests need: what stands on it after the control sequences that our output may hold."""

import re

PIECES = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|(\x1b.)|(\r)|(\n)|([^\x1b\r\n])", re.DOTALL)
UNFINISHED = re.compile(r"\x1b(\[[\d;]*)?$")


class Grid:
    """`lines` are all that was ever shown, the scrolled ones included; text that is too long wraps."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self._cells: list[dict[int, str]] = [{}]
        self._row = self._column = 0
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        shown = ["".join(row.get(at, " ") for at in range(max(row, default=-1) + 1)) for row in self._cells]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def feed(self, text: str) -> None:
        text = self._rest + text
        cut = UNFINISHED.search(text)
        self._rest = cut[0] if cut else ""
        for number, final, other, home, newline, letter in PIECES.findall(text.removesuffix(self._rest)):
            assert not other, f"an escape that was not expected: {other!r}"
            if final == "A":
                self._row -= int(number or 1)
                assert self._row >= 0, "above the top"
            elif final == "K":
                self._erase_line()
            elif final == "J":
                self._erase_line()
                del self._cells[self._row + 1 :]
            elif final:
                assert final == "m", f"a sequence that was not expected: {final!r}"
            elif home:
                self._column = 0
            elif newline:
                self._down()
                self._column = 0  # the line discipline makes it a carriage return too
            else:
                self._put(letter)

    def _put(self, letter: str) -> None:
        if self._column == self.columns:
            self._down()
            self._column = 0
        self._cells[self._row][self._column] = letter
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._cells):
            self._cells.append({})

    def _erase_line(self) -> None:
        row = self._cells[self._row]
        for at in [at for at in row if at >= self._column]:
            del row[at]

    def narrow(self, columns: int) -> None:
        """As terminals do that wrap again what they show; the cursor stays with its cell."""
        old, at = self.lines, (self._row, self._column)
        self.columns, self._cells, self._row, self._column = columns, [{}], 0, 0
        for number, line in enumerate(old):
            if number:
                self.feed("\r\n")
            self.feed(line)
        assert at[0] == len(old) - 1, "only with the cursor on the last line"
