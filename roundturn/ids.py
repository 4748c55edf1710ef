"""Every id has one form, made from position or from 128 random bits, so that retries and replays name the same thing."""

import base64
import re
from dataclasses import dataclass

SESSION_PATTERN = re.compile(r"s_[a-z2-7]{26}")
FOREIGN_KEY_PATTERN = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


def session_id(random: bytes) -> str:
    """`s_` and 26 characters; `random` is 16 bytes from `secrets` (design section 2)."""
    return "s_" + _encode(random)


def approval_id(random: bytes) -> str:
    """`ap_` and 26 characters; unguessable, since whoever knows it may answer (field case P126)."""
    return "ap_" + _encode(random)


def _encode(random: bytes) -> str:
    if len(random) != 16:
        raise ValueError(f"an id needs 16 random bytes, got {len(random)}")
    return base64.b32encode(random).decode().rstrip("=").lower()


def is_session_id(text: str) -> bool:
    return SESSION_PATTERN.fullmatch(text) is not None


def is_foreign_key(text: str) -> bool:
    """Whether a client's own key may be stored beside ours; it is never used as a path or workflow id (P134)."""
    return FOREIGN_KEY_PATTERN.fullmatch(text) is not None


def turn_id(session: str, n: int) -> str:
    return f"{session}/{n}"


def call_id(turn: str, step: int, index: int) -> str:
    """From position: the same over retries, approvals and restarts; tools use it as idempotency key."""
    return f"{turn}.{step}.{index}"


def session_workflow(session: str) -> str:
    return f"session/{session}"


def turn_workflow(turn: str) -> str:
    return f"turn/{turn}"


@dataclass(frozen=True)
class CallPosition:
    """Where a call stands; `CallPosition.parse` is the inverse of `call_id`."""

    turn: str
    step: int
    index: int

    @classmethod
    def parse(cls, call: str) -> "CallPosition":
        turn, step, index = call.rsplit(".", 2)
        return cls(turn, int(step), int(index))


def session_of(turn: str) -> str:
    """The session of a turn id (or of a run id, which is a turn id)."""
    return turn.rsplit("/", 1)[0]


def number_of(turn: str) -> int:
    """The n of a turn id; it orders ids, and may have gaps."""
    return int(turn.rsplit("/", 1)[1])


def printable(name: str) -> str:
    """A name that somebody else chose, fit for logs and screens: bounded, no control characters (P12)."""
    return "".join(c if c.isprintable() else "?" for c in name[:64])
