"""The processes of one run, on the loopback interface: a Temporal server, a scripted model, and both workers."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TUNING = ("history.transferProcessorMaxPollRPS=2000", 'history.timerProcessorMaxTimeShift="10ms"')
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")
DEADLINE_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def process(
    argv: Sequence[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Ended with the block, whatever happens in it."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROUNDTURN_", "OPENAI_", "TEMPORAL_"))
    }
    with open(log, "wb") as file:
        child = subprocess.Popen(
            argv, stdout=file, stderr=file, env=clean | (environment or {}), start_new_session=True
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def temporal_argv(port: int, folder: Path) -> list[str]:
    argv = [
        str(Path(sys.executable).parent / "temporal"), "server", "start-dev", "--headless", "--log-level", "never",
        "--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(folder / "temporal.db"),
    ]  # fmt: skip
    for pragma in PRAGMAS:
        argv += ["--sqlite-pragma", pragma]
    for value in TUNING:
        argv += ["--dynamic-config-value", value]
    return argv


def wait_for_port(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if child.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"a process of the benchmark did not start: {child.args!r}")


def cpu_s(pid: int) -> float:
    """Seconds of CPU that the process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of the process (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
