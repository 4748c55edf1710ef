"""The journals of a run and of its subagents' runs as one stream: which runs belong to it, and how far each is read."""

import heapq
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from roundturn.event import RUN_ENDED, RunEvent
from roundturn.store import Journal

PAGE = 500
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Journals:
    """Give the same one again after a failure, and nothing is missed or repeated.

    `after`: what is known already of the root's own journal.
    """

    def __init__(self, root: str, *, subagents: bool = True, after: int = 0) -> None:
        self.root = root
        self.ended = False
        self._subagents = subagents
        self._read = {root: after}
        self._over: set[str] = set()

    async def news(self, journal: Journal) -> AsyncIterator[RunEvent]:
        """All that is there now and was not read yet, by time; each run's in its order, and after what names it."""
        since = {run: LONG_AGO for run in self._read if run not in self._over}
        runs, found = list(since), []
        for run in runs:  # grows: a subagent's run is read in the same look as the event that names it
            events = list(_in_order([event async for event in self._rest(journal, run)], since[run]))
            found.append(events)
            for at, child in ((at, self._child(event)) for at, event in events):
                if child is not None and child not in self._read and child not in since:
                    since[child] = at
                    runs.append(child)
        for _, event in heapq.merge(*found, key=lambda one: one[0]):
            self._took(event)
            yield event

    def _took(self, event: RunEvent) -> None:
        self._read[event.run] = event.offset
        if (child := self._child(event)) is not None:
            self._read.setdefault(child, 0)
        if event.type == RUN_ENDED:
            self._over.add(event.run)
            self.ended = self.ended or event.run == self.root

    def _child(self, event: RunEvent) -> str | None:
        return event.data["run"] if self._subagents and event.type == "subagent.spawned" else None

    async def _rest(self, journal: Journal, run: str) -> AsyncIterator[RunEvent]:
        after = self._read.get(run, 0)
        while page := await journal.read(run, after, PAGE):
            for event in page:
                yield event
            after = page[-1].offset


def _in_order(events: Sequence[RunEvent], since: datetime) -> Iterator[tuple[datetime, RunEvent]]:
    """With times that never go back: an event may tell of an earlier moment than the one before it."""
    for event in events:
        since = max(since, event.ts)
        yield since, event
