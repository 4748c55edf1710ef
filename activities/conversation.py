"""What was read once is not read again: snapshots by digest, and each session's talk as far as it can no longer change."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from roundturn import ids
from roundturn.agent import Snapshot
from roundturn.context import request_messages, talk_messages
from roundturn.store import Conversation, OpenStep, Sessions

KEPT_SESSIONS = 256
KEPT_SNAPSHOTS = 64

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V], Generic[K, V]):
    """The most recently used entries, at most `size`."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._size:
            self.popitem(last=False)
        return value


class Snapshots:
    """Frozen, found by their digest: a cached one cannot be stale (P104 is about workflow code, this is none)."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._kept: Recent[str, Snapshot] = Recent(KEPT_SNAPSHOTS)

    async def get(self, digest: str) -> Snapshot:
        if (known := self._kept.get(digest)) is not None:
            return known
        body = await self._sessions.snapshot_body(digest)
        assert body is not None, "a session's snapshot is stored before its first turn"
        return self._kept.keep(digest, Snapshot.model_validate_json(body))


@dataclass
class Talk:
    """The messages of a session's transcript up to entry `seq` of `generation`, in the wire shape."""

    generation: int = -1
    seq: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)


class Talks:
    """Transcript rows are never changed inside a generation, so that only what came after is read (design section 4)."""

    def __init__(self) -> None:
        self._kept: Recent[str, Talk] = Recent(KEPT_SESSIONS)

    def known(self, session: str) -> Talk:
        return self._kept.get(session) or Talk()

    def heard(self, opened: OpenStep, known: Talk, prompt: str) -> list[dict[str, Any]]:
        """The request's messages: what was known and the news. Raises `BrokenPairing`."""
        talk = known if known.generation == opened.generation else Talk(opened.generation)
        news = opened.news
        talk = Talk(
            generation=opened.generation,
            seq=news.entries[-1].seq if news.entries else talk.seq,
            messages=[*talk.messages, *talk_messages(news.entries, news.results)],
        )
        if _settled(news):
            self._kept.keep(opened.session, talk)
        return request_messages(prompt, talk.messages)


def _settled(news: Conversation) -> bool:
    """Whether every call has its result; one that has none yet may get it, and is read again."""
    return all(
        ids.call_id(entry.turn, entry.step, index) in news.results
        for entry in news.entries
        for index in range(len(entry.calls))
    )
