"""A file gets a new content whole, or keeps the old one; and who changes it meanwhile."""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from roundturn.errors import ToolFailed
from roundturn.tools.paths import Place

LOCK_S = 5.0
LOCK_POLL_S = 0.01


@contextmanager
def alone(place: Place, stopped: threading.Event) -> Iterator[None]:
    """Nobody else who asks here changes a file of this directory meanwhile: no thread and no process of this machine.

    It is flock(2) on the directory, which ends with the process. Hazard: editors and commands do not ask, and on file
    systems that lock no directories (NFS) nobody waits; so whoever read before he writes looks again. Raises
    `ToolFailed` of kind `busy` after five seconds, or when `stopped`.
    """
    locked = _lock(place, stopped)
    try:
        yield
    finally:
        if locked:
            fcntl.flock(place.directory, fcntl.LOCK_UN)  # the descriptor may live on as a copy


def _lock(place: Place, stopped: threading.Event) -> bool:
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(place.directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline or stopped.wait(LOCK_POLL_S):
                raise ToolFailed(
                    f"Somebody else is changing files beside {place.shown}; nothing was written, try again",
                    "busy",
                ) from None
        except OSError:  # not on this file system
            return False
        else:
            return True


def replace(place: Place, content: bytes, before: os.stat_result | None) -> None:
    """A new file beside the old one takes its name: a crash leaves one of the two whole. Raises `OSError`."""
    temporary = f".roundturn-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(temporary, flags, 0o666, dir_fd=place.directory)
    try:
        with open(opened, "wb") as file:
            file.write(content)
            if before is not None:
                os.fchmod(opened, before.st_mode & 0o777)  # never set-user-id: the content is new
            file.flush()
            os.fsync(opened)
        os.replace(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.directory)
        raise
    os.fsync(place.directory)  # the new name survives a power cut too
