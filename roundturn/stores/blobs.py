"""Blobs: contents too big for a row, found by their digest in a directory."""

import asyncio
import hashlib
import os
import re
import tempfile
from pathlib import Path

DIGEST = re.compile(r"[0-9a-f]{64}")  # the only thing that ever becomes part of a path (P134)


class DirectoryBlobs:
    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        await asyncio.to_thread(self._write, self._path(digest), content)
        return digest

    async def get(self, digest: str) -> bytes | None:
        if not DIGEST.fullmatch(digest):
            return None
        try:
            return await asyncio.to_thread(self._path(digest).read_bytes)
        except FileNotFoundError:
            return None

    def _path(self, digest: str) -> Path:
        return self._root / digest[:2] / digest

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
