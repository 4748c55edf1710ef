"""Sessions and their frozen snapshots."""

import hashlib
import secrets

from sqlalchemy import ColumnElement, Select, select, update

from roundturn import ids
from roundturn.event import NewEvent
from roundturn.jsontext import clean_text
from roundturn.mode import RunMode
from roundturn.store import SessionRow
from roundturn.stores.engine import Database, Tx, insert, now, reading, writing
from roundturn.stores.journal import append
from roundturn.stores.locks import lock_session
from roundturn.stores.tables import runs, sessions, snapshots

COLUMNS = (
    sessions.c.id,
    sessions.c.agent,
    sessions.c.action_dir,
    sessions.c.generation,
    sessions.c.snapshot,
    sessions.c.parent,
    sessions.c.depth,
    sessions.c.entry,
    sessions.c.run_mode,
    sessions.c.created_at,
)


class SqlSessions:
    def __init__(self, database: Database) -> None:
        self.database = database

    @writing
    def open(
        self,
        tx: Tx,
        agent: str,
        action_dir: str,
        client_key: str | None = None,
        entry: str = "library",
        run_mode: RunMode = "build",
    ) -> SessionRow:
        if client_key is not None and (known := _one(tx, sessions.c.client_key == client_key)):
            return known
        made = ids.session_id(secrets.token_bytes(16))
        fresh = insert(tx, sessions).values(
            id=made,
            client_key=client_key,
            agent=agent,
            action_dir=action_dir.replace("{session}", made),
            entry=entry,
            run_mode=run_mode,
            created_at=now(tx),
        )
        tx.execute(fresh.on_conflict_do_nothing(index_elements=["client_key"]))
        mine = sessions.c.id == made if client_key is None else sessions.c.client_key == client_key
        row = _one(tx, mine)
        assert row is not None
        return row

    @reading
    def read(self, tx: Tx, session: str) -> SessionRow | None:
        return _one(tx, sessions.c.id == session)

    @writing
    def set_run_mode(self, tx: Tx, session: str, mode: RunMode, actor: str) -> SessionRow | None:
        row = lock_session(tx, session)
        if row is None:
            return None
        if row.run_mode != mode:
            told = NewEvent("run_mode.changed", {"from": row.run_mode, "to": mode, "actor": actor})
            family = _with_delegated(tx, session)
            tx.execute(update(sessions).where(sessions.c.id.in_(family)).values(run_mode=mode))
            for one in reversed(family):  # the lock order: a child's journal before its parent's
                active = select(runs.c.id).where(runs.c.session == one, runs.c.state == "active")
                for run in tx.execute(active.order_by(runs.c.id)).scalars().all():
                    append(tx, run, [told])
        return _one(tx, sessions.c.id == session)

    @reading
    def page(self, tx: Tx, prefix: str, limit: int) -> list[SessionRow]:
        query = select(*COLUMNS).where(sessions.c.id.startswith(prefix, autoescape=True))
        rows = tx.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id).limit(limit))
        return [SessionRow(**row._mapping) for row in rows]

    @writing
    def freeze(self, tx: Tx, session: str, snapshot: str) -> str:
        snapshot = clean_text(snapshot)
        digest = hashlib.sha256(snapshot.encode()).hexdigest()
        tx.execute(insert(tx, snapshots).values(digest=digest, body=snapshot).on_conflict_do_nothing())
        unset = update(sessions).where(sessions.c.id == session, sessions.c.snapshot.is_(None))
        tx.execute(unset.values(snapshot=digest))
        return tx.execute(_digest(session)).scalar_one_or_none() or digest

    @reading
    def snapshot(self, tx: Tx, session: str) -> str | None:
        return tx.execute(_digest(session)).scalar_one_or_none()

    @reading
    def snapshot_body(self, tx: Tx, digest: str) -> str | None:
        query = select(snapshots.c.body).where(snapshots.c.digest == digest)
        return tx.execute(query).scalar_one_or_none()


def _with_delegated(tx: Tx, session: str) -> list[str]:
    """A session and all below it, parents first; each is locked, so that none delegates meanwhile in the old mode."""
    found = [session]
    for parent in found:  # grows while it is walked
        lock_session(tx, parent)
        children = select(sessions.c.id).where(sessions.c.parent == parent).order_by(sessions.c.id)
        found.extend(tx.execute(children).scalars())
    return found


def _digest(session: str) -> Select[str | None]:
    return select(sessions.c.snapshot).where(sessions.c.id == session)


def _one(tx: Tx, condition: ColumnElement[bool]) -> SessionRow | None:
    row = tx.execute(select(*COLUMNS).where(condition)).one_or_none()
    return None if row is None else SessionRow(**row._mapping)
