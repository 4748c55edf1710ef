"""The commands under their nouns, and how the process begins and ends."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from gateway.cli import (
    agents,
    approvals,
    db,
    events,
    exits,
    inspect,
    mode,
    processes,
    replay,
    rules,
    run,
    sessions,
    verdicts,
)
from gateway.cli.exits import UNEXPECTED, USAGE, Code, leave
from gateway.cli.screen import Screen
from roundturn import __version__

NOUNS = {
    "approvals": ("What waits for a person, and the answers.", (approvals, verdicts)),
    "agents": ("Agent definitions.", (agents,)),
    "db": ("The store.", (db,)),
    "rules": ("Rules that hold for every session at once, without a restart.", (rules,)),
    "inspect": ("How this installation is put together.", (inspect,)),
}
START = "roundturn run TEXT starts a session; roundturn dev runs everything on this machine."


def build() -> typer.Typer:
    app = _group("Durable runs of agents: send work, follow it, answer what waits for a person.", START)
    app.callback(invoke_without_command=True)(_root)
    for module in (run, sessions, mode, events, replay, processes, exits):
        module.register(app)
    for name, (sentence, modules) in NOUNS.items():
        noun = _group(sentence, "")
        for member in modules:
            member.register(noun)
        app.add_typer(noun, name=name)
    return app


def _group(sentence: str, epilog: str) -> typer.Typer:
    return typer.Typer(
        help=sentence,
        epilog=epilog,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )


def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> int:
    if version:
        sys.stdout.write(f"roundturn {__version__}\n")
        raise typer.Exit(Code.DONE)
    return Code.DONE


def start() -> NoReturn:
    _open_standard_streams()
    try:
        code = build()(prog_name="roundturn", standalone_mode=False)
    except typer.TyperException as fault:
        code = _misused(fault)
    except (typer.Abort, KeyboardInterrupt):
        code = Code.INTERRUPTED
    except OSError as fault:  # stdout is full, outside of any command's own care
        Screen().fault(UNEXPECTED, str(fault), "is the disk full?")
        code = UNEXPECTED.code
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else Code.FAILED
    leave(code if isinstance(code, int) else Code.DONE)


def _misused(fault: typer.TyperException) -> int:
    """What the parser could not make sense of, in our words."""
    context = getattr(fault, "ctx", None)
    path = context.command_path if context else "roundturn"
    asked_json = any(flag in sys.argv for flag in ("--json", "--jsonl"))
    message = fault.format_message()
    if type(fault).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{message.rstrip()}\n")
        return Code.USAGE
    screen = Screen("json" if asked_json else "text")
    screen.fault(USAGE, message, f"see: {path} --help")
    return Code.USAGE


def _open_standard_streams() -> None:
    """A closed stdout must not become the first file that we open, and no text may fail for its characters."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for the whole life
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
