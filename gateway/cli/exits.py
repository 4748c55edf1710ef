"""Exit codes are a contract with scripts: one table, and which error or ending has which code (docs: `help exit-codes`)."""

import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from roundturn import errors


class Code(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITS = 3
    REFUSED = 4
    INCOMPLETE = 5
    TOO_LATE = 6
    UNREACHABLE = 7
    DIFFERENCE = 8
    CANCELLED = 9
    UNKNOWN_OUTCOME = 10
    TIMEOUT = 124
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[Code, str] = {
    Code.DONE: "done; the run completed; dev ended by Ctrl-C and stopped cleanly",
    Code.FAILED: "the run failed, or an unexpected error",
    Code.USAGE: "wrong usage or a wrong setting, or a prompt would be needed",
    Code.WAITS: "the run waits for a person (--until-approval, or it ended with a question)",
    Code.REFUSED: "not allowed",
    Code.INCOMPLETE: "the run is incomplete (budget, steps, cut off); the last line on stderr says why",
    Code.TOO_LATE: "too late or lost: decided otherwise, expired, cancelled, changed, ended already",
    Code.UNREACHABLE: "Temporal or the database is not reachable, or the store is not migrated",
    Code.DIFFERENCE: "a difference was found",
    Code.CANCELLED: "the run was cancelled (by a stop)",
    Code.UNKNOWN_OUTCOME: "the run completed, but a side effect in it has an unknown outcome; a person must look",
    Code.TIMEOUT: "--timeout ran out; the run goes on",
    Code.INTERRUPTED: "left by Ctrl-C; a run that was followed goes on",
    Code.TERMINATED: "left by SIGTERM; a run that was followed goes on",
}

ENDINGS: dict[str, Code] = {
    "completed": Code.DONE,
    "awaiting_user": Code.WAITS,
    "incomplete": Code.INCOMPLETE,
    "cancelled": Code.CANCELLED,
    "failed": Code.FAILED,
}


def of_ending(state: str, unknown_outcomes: bool) -> Code:
    """A run's own state decides; an unknown outcome counts where everything else would look well."""
    code = ENDINGS[state]
    return Code.UNKNOWN_OUTCOME if code is Code.DONE and unknown_outcomes else code


@dataclass(frozen=True)
class Kind:
    """How a class of errors is called in JSON and in one sentence, and its exit code."""

    type: str
    title: str
    code: Code


UNEXPECTED = Kind("unexpected", "unexpected error", Code.FAILED)
USAGE = Kind("usage", "wrong usage", Code.USAGE)
KINDS: dict[type[errors.RoundturnError], Kind] = {
    errors.UsageError: USAGE,
    errors.ConfigurationError: Kind("configuration", "a setting or definition is wrong", Code.USAGE),
    errors.Refused: Kind("refused", "not allowed", Code.REFUSED),
    errors.Settled: Kind("settled", "too late", Code.TOO_LATE),
    errors.Unavailable: Kind("unavailable", "not reachable", Code.UNREACHABLE),
}


def kind_of(fault: BaseException) -> Kind:
    return next((kind for error, kind in KINDS.items() if isinstance(fault, error)), UNEXPECTED)


def leave(code: int) -> NoReturn:
    """Ends the process at once: the Temporal client's threads do not survive the interpreter's own way out."""
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            end_by_pipe()
        except (OSError, ValueError):
            code = code or Code.FAILED
    os._exit(code)


def end_by_pipe() -> NoReturn:
    """The reader of our output has left: end as every Unix filter does, without a word."""
    import os
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)
