"""Sessions and their frozen snapshots."""

import hashlib
import secrets

from sqlalchemy import select, update

from roundturn import ids
from roundturn.jsontext import clean_text
from roundturn.store import SessionRow
from roundturn.stores.engine import Database, Tx, insert, now
from roundturn.stores.tables import sessions, snapshots

COLUMNS = (
    sessions.c.id,
    sessions.c.agent,
    sessions.c.action_dir,
    sessions.c.generation,
    sessions.c.snapshot,
    sessions.c.created_at,
)


class SqlSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, agent: str, action_dir: str, client_key: str | None = None) -> SessionRow:
        async with self._database.write() as tx:
            if client_key is not None and (known := await _one(tx, sessions.c.client_key == client_key)):
                return known
            made = ids.session_id(secrets.token_bytes(16))
            fresh = insert(tx, sessions).values(
                id=made,
                client_key=client_key,
                agent=agent,
                action_dir=action_dir.replace("{session}", made),
                created_at=await now(tx),
            )
            await tx.execute(fresh.on_conflict_do_nothing(index_elements=["client_key"]))
            mine = sessions.c.id == made if client_key is None else sessions.c.client_key == client_key
            row = await _one(tx, mine)
            assert row is not None
            return row

    async def read(self, session: str) -> SessionRow | None:
        async with self._database.read() as tx:
            return await _one(tx, sessions.c.id == session)

    async def page(self, prefix: str, limit: int) -> list[SessionRow]:
        query = select(*COLUMNS).where(sessions.c.id.startswith(prefix, autoescape=True))
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id).limit(limit))
            return [SessionRow(**row._mapping) for row in rows]

    async def freeze(self, session: str, snapshot: str) -> str:
        snapshot = clean_text(snapshot)
        digest = hashlib.sha256(snapshot.encode()).hexdigest()
        async with self._database.write() as tx:
            await tx.execute(
                insert(tx, snapshots).values(digest=digest, body=snapshot).on_conflict_do_nothing()
            )
            await tx.execute(
                update(sessions)
                .where(sessions.c.id == session, sessions.c.snapshot.is_(None))
                .values(snapshot=digest)
            )
            return await _snapshot(tx, session) or snapshot

    async def snapshot(self, session: str) -> str | None:
        async with self._database.read() as tx:
            return await _snapshot(tx, session)


async def _one(tx: Tx, condition: object) -> SessionRow | None:
    row = (await tx.execute(select(*COLUMNS).where(condition))).one_or_none()  # type: ignore[arg-type]
    return None if row is None else SessionRow(**row._mapping)


async def _snapshot(tx: Tx, session: str) -> str | None:
    query = select(snapshots.c.body).join(sessions, sessions.c.snapshot == snapshots.c.digest)
    found: str | None = (await tx.execute(query.where(sessions.c.id == session))).scalar_one_or_none()
    return found
