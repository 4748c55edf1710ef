"""Keeps the beginning and the end of an output of any size in constant memory (P27)."""

import codecs

from roundturn.jsontext import clean_text, whole_words

HEAD_BYTES = 21 * 1024
TAIL_BYTES = 11 * 1024


class Capture:
    """Bytes go in as they come; `text` is what a model may read of them."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        room = HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:][-TAIL_BYTES:]
        if len(self._tail) > TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def text(self, budget_bytes: int) -> str:
        """At most `budget_bytes` of UTF-8, cut between words; bytes that are no text become U+FFFD, which takes three."""
        head, tail = bytes(self._head), bytes(self._tail)
        if len(head) + len(tail) == self.total_bytes:
            whole = clean_text((head + tail).decode(errors="replace"))
            if len(whole.encode()) <= budget_bytes:
                return whole
        marker = f"\n[... {self.total_bytes} bytes in all, the middle is cut ...]\n"
        room = budget_bytes - len(marker)
        tail_room = min(TAIL_BYTES, room // 3)
        beginning, end = _first(head, room - tail_room), _last(tail or head, tail_room)
        return whole_words(beginning) + marker + whole_words(end, from_middle=True)


def _first(raw: bytes, room: int) -> str:
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)  # drops a cut last character
    return clean_text(text).encode()[:room].decode(errors="ignore")


def _last(raw: bytes, room: int) -> str:
    """From the first byte that can start a character: the ring begins anywhere."""
    start = next((i for i, byte in enumerate(raw[:4]) if byte & 0xC0 != 0x80), 0)
    text = raw[start:].decode(errors="replace")
    return clean_text(text).encode()[-room:].decode(errors="ignore")
