"""Which ports of this machine are free, and who has those that are not."""

import os
import random
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
# Below the range that the kernel takes for outgoing connections (32768 on): a client that tries again and again
# while a server restarts would otherwise meet itself there, and hold the server's port.
CHOSEN_FROM = range(20_000, 31_000)
TRIES = 200
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True)
class Holder:
    pid: int
    name: str


def is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(*beside: int) -> int:
    """A port that is free, and so are the ones at these distances from it."""
    for _ in range(TRIES):
        port = random.choice(CHOSEN_FROM)
        if all(is_free(port + distance) for distance in (0, *beside)):
            return port
    raise OSError(f"no free port on {HOST} between {CHOSEN_FROM.start} and {CHOSEN_FROM.stop}")


def holder(port: int) -> Holder | None:
    """Who listens there, as far as this user may see (proc(5); Linux only)."""
    wanted = {f"socket:[{inode}]" for inode in _listening(port)}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        with suppress(OSError):
            if any(_target(entry) in wanted for entry in (process / "fd").iterdir()):
                return Holder(int(process.name), (process / "comm").read_text().strip())
    return None


def _listening(port: int) -> Iterable[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]


def _target(entry: Path) -> str:
    try:
        return os.readlink(entry)
    except OSError:  # closed meanwhile
        return ""
