"""Figures of a process as the kernel counts them (Linux), and how they are told beside the machine's state."""

import os
import sys
from pathlib import Path

MIB = 2**20


def rss_mib(pid: int) -> float:
    """Resident memory of the process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def cpu_s(pid: int) -> float:
    """Seconds of CPU that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tell(line: str) -> None:
    """Shown by `make scale`; a figure means little without how busy the machine was."""
    sys.stdout.write(f"{line}  [load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores]\n")
    sys.stdout.flush()
