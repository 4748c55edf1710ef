"""A session's frozen snapshot, found by its digest: read and parsed once in a process."""

from activities.recent import Recent
from roundturn.agent import Snapshot
from roundturn.store import Sessions

KEPT_SNAPSHOTS = 64


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
