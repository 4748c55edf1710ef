"""Exit codes are a contract with scripts: one table, which error or ending has which code, and the help on them."""

import difflib
import os
import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, NoReturn

import typer

from gateway.cli.options import Color, Json
from gateway.cli.screen import Screen, end_by_pipe
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
    Code.USAGE: "wrong usage, a wrong setting or a broken tool, or a prompt would be needed",
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

TOPICS = {"exit-codes": "what the exit code of a command says"}
NOTES = (
    "",
    "A run's own state decides; 10 is for a run that completed and has a call in it whose outcome is unknown.",
    "A pipe whose reader has left ends a command by SIGPIPE (141 in a shell), without a word.",
)


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
    errors.AuthorError: Kind("author", "a tool breaks its contract or cannot be loaded", Code.USAGE),
    errors.Refused: Kind("refused", "not allowed", Code.REFUSED),
    errors.Settled: Kind("settled", "too late", Code.TOO_LATE),
    errors.Unavailable: Kind("unavailable", "not reachable", Code.UNREACHABLE),
}


def kind_of(fault: BaseException) -> Kind:
    return next((kind for error, kind in KINDS.items() if isinstance(fault, error)), UNEXPECTED)


def leave(code: int) -> NoReturn:
    """Ends the process at once: the Temporal client's threads do not survive the interpreter's own way out."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            end_by_pipe()
        except (OSError, ValueError):
            code = code or Code.FAILED
    os._exit(code)


def more(*examples: str, codes: tuple[Code, ...] = ()) -> str:
    """The end of a help page: real examples, and the exit codes beyond 0, 1, 2, 7 and 130."""
    known = sorted({Code.DONE, Code.FAILED, Code.USAGE, Code.UNREACHABLE, Code.INTERRUPTED, *codes})
    lines = [f"  {code.value:<4} {MEANINGS[code]}" for code in known]
    return "\n".join(
        ("\b", "Examples:", *(f"  $ {line}" for line in examples), "", "\b", "Exit codes:", *lines)
    )


def list_topics(screen: Screen) -> int:
    if screen.mode == "json":
        screen.items([{"topic": topic, "about": about} for topic, about in TOPICS.items()])
        return Code.DONE
    for topic, about in TOPICS.items():
        screen.data(f"{topic}  {about}" if screen.terminal else f"{topic}\t{about}")
    if screen.terminal:
        screen.talk("read one with: roundturn help TOPIC; a command's own help: roundturn COMMAND --help")
    return Code.DONE


def explain(screen: Screen, topic: str) -> int:
    if topic not in TOPICS:
        near = difflib.get_close_matches(topic, TOPICS, 1) or list(TOPICS)
        screen.fault(USAGE, f"there is no help on {topic!r}", f"did you mean: roundturn help {near[0]}")
        return Code.USAGE
    if screen.mode == "json":
        screen.items([{"code": code.value, "meaning": meaning} for code, meaning in MEANINGS.items()])
        return Code.DONE
    for code, meaning in MEANINGS.items():
        screen.data(f"{code.value:>4}  {meaning}" if screen.terminal else f"{code.value}\t{meaning}")
    for line in NOTES if screen.terminal else ():
        screen.talk(line)
    return Code.DONE


def register(app: typer.Typer) -> None:
    help_more = more(
        "roundturn help exit-codes", "roundturn help exit-codes --json", "roundturn help exit-codes | grep 6"
    )

    @app.command("help", epilog=help_more)
    def help_(
        topic: Annotated[
            str | None, typer.Argument(metavar="[TOPIC]", help=f"One of: {', '.join(TOPICS)}.")
        ] = None,
        json: Json = False,
        color: Color = "auto",
    ) -> int:
        """Explain a topic that belongs to no single command."""
        screen = Screen("json" if json else "text", color=color)
        return list_topics(screen) if topic is None else explain(screen, topic)
