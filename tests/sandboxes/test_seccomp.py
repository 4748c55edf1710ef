"""The filter of system calls, run by a small machine of the test's own, for every processor that it knows."""

import struct

import pytest

from roundturn.sandbox import SandboxRefused
from roundturn.sandboxes.seccomp import ALLOW, KILL, MACHINES, REFUSE, filter_program
from tests.requirements import requirement


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would answer (Documentation/userspace-api/seccomp_filter.rst)."""
    known = MACHINES[machine]
    call = struct.pack(
        "<IIQ6Q", number, known.architecture if architecture is None else architecture, 0,
        *(*arguments, 0, 0, 0, 0, 0, 0)[:6],
    )  # fmt: skip
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    at, loaded = 0, 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", call, value)
        elif code in (0x15, 0x35):
            at += yes if (loaded == value if code == 0x15 else loaded >= value) else no
        else:
            assert code == 0x06
            return int(value)


@requirement("X-12")
@pytest.mark.parametrize("machine", MACHINES)
def test_what_no_namespace_holds_is_refused(machine: str) -> None:
    known = MACHINES[machine]
    assert {verdict(machine, number) for number in known.refused.values()} == {REFUSE | 38}
    families = {family: verdict(machine, known.socket, family) for family in range(64)}
    assert {family for family, answer in families.items() if answer == ALLOW} == {1, 2, 10, 16}
    assert {answer for answer in families.values() if answer != ALLOW} == {REFUSE | 97}
    assert verdict(machine, known.ioctl, 0, 0x5412) == verdict(machine, known.ioctl, 9, 0x541C) == REFUSE | 1
    assert verdict(machine, known.ioctl, 0x5412, 0x5401) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_every_other_call_is_allowed(machine: str) -> None:
    known = MACHINES[machine]
    others = set(range(470)) - {known.socket, *known.refused.values()}
    assert {verdict(machine, number) for number in others} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_of_another_processor_lead_nowhere(machine: str) -> None:
    assert verdict(machine, 0, architecture=0x40000003) == KILL
    assert verdict(machine, 0x40000000 + 41, 40) == REFUSE | 38


def test_a_processor_that_is_not_known_has_no_sandbox() -> None:
    with pytest.raises(SandboxRefused, match="no filter"):
        filter_program("sparc64")
