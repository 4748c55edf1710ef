"""A session's transcript as far as it can no longer change is read and put into the wire shape once in a process."""

from dataclasses import dataclass, field
from typing import Any

from activities.recent import Recent
from roundturn import ids
from roundturn.context import request_messages, transcript_messages
from roundturn.store import Conversation, OpenStep

KEPT_SESSIONS = 256


@dataclass
class Settled:
    """The messages of a session's transcript up to entry `seq` of `generation`, in the wire shape."""

    generation: int = -1
    seq: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)


class Transcripts:
    """Transcript rows are never changed inside a generation, so that only what came after is read (design section 4)."""

    def __init__(self) -> None:
        self._kept: Recent[str, Settled] = Recent(KEPT_SESSIONS)

    def known(self, session: str) -> Settled:
        return self._kept.get(session) or Settled()

    def heard(self, opened: OpenStep, known: Settled, prompt: str) -> list[dict[str, Any]]:
        """The request's messages: what was known and the news. Raises `BrokenPairing`."""
        settled = known if known.generation == opened.generation else Settled(opened.generation)
        news = opened.news
        settled = Settled(
            generation=opened.generation,
            seq=news.entries[-1].seq if news.entries else settled.seq,
            messages=[*settled.messages, *transcript_messages(news.entries, news.results)],
        )
        if _settled(news):
            self._kept.keep(opened.session, settled)
        return request_messages(prompt, settled.messages)


def _settled(news: Conversation) -> bool:
    """Whether every call has its result; one that has none yet may get it, and is read again."""
    return all(
        ids.call_id(entry.turn, entry.step, index) in news.results
        for entry in news.entries
        for index in range(len(entry.calls))
    )
