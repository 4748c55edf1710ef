"""How a table fits on a terminal: which columns may shrink there, and which are left out before that."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

GAP = 2
READABLE = 20  # cells: a column that may shrink keeps so many while there are others to leave out
LEAST = 8


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    room: int,
    cut: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> list[Text]:
    """The header and a line for each row.

    `cut`: what may shrink, the first of them first; the last column when nothing is named. `spare`: what may be left
    out, the first of them first. The first column never shrinks: it is the name that a person types into the next
    command, and half of it is none. No other shrinks either that is not named, because the beginning of a state or a
    decision tells nothing; where all of that is too much, lines are longer than the terminal and wrap.
    """
    cut = cut or columns[-1:]
    assert columns[0] not in (*cut, *spare)
    widths = {name: max(map(cell_len, (name, *(row[at] for row in rows)))) for at, name in enumerate(columns)}
    for name in spare:
        if (
            _total({kept: min(width, READABLE) if kept in cut else width for kept, width in widths.items()})
            <= room
        ):
            break
        del widths[name]
    for floor in (READABLE, LEAST):
        for name in cut:
            too_much = max(0, _total(widths) - room)
            widths[name] = max(widths[name] - too_much, min(widths[name], max(floor, cell_len(name))))
    kept = [at for at, name in enumerate(columns) if name in widths]
    header, *lines = (_line([row[at] for at in kept], list(widths.values())) for row in (columns, *rows))
    header.stylize("bold")
    return [header, *lines]


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int]) -> Text:
    texts = [Text(cell) for cell in cells]
    for text, width in zip(texts, widths, strict=True):
        text.truncate(width, overflow="ellipsis", pad=True)
    line = Text(" " * GAP).join(texts)
    line.rstrip()
    return line
