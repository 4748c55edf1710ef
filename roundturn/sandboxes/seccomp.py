"""The system calls that namespaces do not confine, refused by a filter of the kernel (seccomp(2), X-12).

A network namespace does not hold AF_VSOCK, which reaches the machine's hypervisor; the session's keyring is
inherited; io_uring makes sockets without a call to `socket`; the rest is the kernel's widest surface of attack.
"""

import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from roundturn.sandbox import SandboxRefused

# <linux/bpf_common.h>, <linux/seccomp.h>: load a word of the call, compare, answer.
LOAD, EQUAL, AT_LEAST, ANSWER = 0x20, 0x15, 0x35, 0x06
# Offsets in struct seccomp_data, on little-endian machines.
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: those that belong to a network namespace
INJECTING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX put words into a terminal
FOREIGN = 0x40000000  # of x86_64: numbers of its 32-bit variant


@dataclass(frozen=True)
class Machine:
    """The numbers of one processor: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h."""

    architecture: int
    socket: int
    ioctl: int
    refused: Mapping[str, int]


IO_URING = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
MACHINES = {
    "x86_64": Machine(
        0xC000003E, 41, 16,
        {"add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323}
        | IO_URING,
    ),
    "aarch64": Machine(
        0xC00000B7, 198, 29,
        {"add_key": 217, "request_key": 218, "keyctl": 219, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282}
        | IO_URING,
    ),
}  # fmt: skip


def filter_program(machine: str = "") -> bytes:
    """For `bwrap --seccomp`, of this machine or the one named. Raises `SandboxRefused` for one that is not known."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        raise SandboxRefused(f"there is no filter of system calls for {machine or platform.machine()}")
    refuse = _answer(REFUSE | ENOSYS)
    families = (word for family in FAMILIES for word in _if(EQUAL, family, _answer(ALLOW)))
    injecting = (word for request in INJECTING for word in _if(EQUAL, request, _answer(REFUSE | EPERM)))
    program = (
        _load(ARCHITECTURE),
        *_if(EQUAL, known.architecture, _load(NUMBER), otherwise=_answer(KILL)),
        *_if(AT_LEAST, FOREIGN, refuse),
        *(word for number in known.refused.values() for word in _if(EQUAL, number, refuse)),
        *_if(EQUAL, known.socket, _load(FIRST), *families, _answer(REFUSE | EAFNOSUPPORT)),
        *_if(EQUAL, known.ioctl, _load(SECOND), *injecting, _answer(ALLOW)),
        _answer(ALLOW),
    )
    return b"".join(program)


def _if(test: int, value: int, *then: bytes, otherwise: bytes = b"") -> tuple[bytes, ...]:
    """`then` if the loaded word passes, else over it; `otherwise` must be an answer."""
    jump = _instruction(test, value, yes=bool(otherwise), no=0 if otherwise else len(then))
    return (jump, *((otherwise,) if otherwise else ()), *then)


def _load(offset: int) -> bytes:
    return _instruction(LOAD, offset)


def _answer(verdict: int) -> bytes:
    return _instruction(ANSWER, verdict)


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """struct sock_filter."""
    return struct.pack("=HBBI", code, yes, no, value)
