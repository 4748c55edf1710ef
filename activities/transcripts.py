"""A session's transcript as far as it can no longer change is read and put into the wire shape once in a process."""

from dataclasses import dataclass

from activities.recent import Recent
from roundturn import ids
from roundturn.context import encoded_messages, request_messages
from roundturn.store import Conversation, OpenStep

KEPT_BYTES = 64 * 2**20  # of all sessions; a talk that fills a model's window is about one MiB
OWN_BYTES = 1024  # of an entry without its text


@dataclass(frozen=True)
class Settled:
    """A session's transcript up to entry `seq` of `generation`, as `request_messages` takes it."""

    generation: int = -1
    seq: int = 0
    encoded: bytes = b""


class Transcripts:
    """Transcript rows are never changed inside a generation, so that only what came after is read (design section 4).

    A step costs what is new in it; of what was there before only bytes are copied.
    """

    def __init__(self, room_bytes: int = KEPT_BYTES) -> None:
        self._kept: Recent[str, Settled] = Recent(room_bytes, lambda kept: OWN_BYTES + len(kept.encoded))

    def known(self, session: str) -> Settled:
        return self._kept.get(session) or Settled()

    def heard(self, opened: OpenStep, known: Settled, prompt: str) -> bytes:
        """The request's messages: what was known and the news. Raises `BrokenPairing`."""
        before = known if known.generation == opened.generation else Settled(opened.generation)
        news = opened.news
        settled = Settled(
            generation=opened.generation,
            seq=news.entries[-1].seq if news.entries else before.seq,
            encoded=before.encoded + encoded_messages(news.entries, news.results),
        )
        if _settled(news):
            self._kept.keep(opened.session, settled)
        return request_messages(prompt, settled.encoded)


def _settled(news: Conversation) -> bool:
    """Whether every call has its result; one that has none yet may get it, and is read again."""
    return all(
        ids.call_id(entry.turn, entry.step, index) in news.results
        for entry in news.entries
        for index in range(len(entry.calls))
    )
