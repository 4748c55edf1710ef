"""`worker`, `dev` and `demo`: the commands that start long-lived processes."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gateway.cli.command import guarded
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Home, Verbose
from gateway.cli.screen import Screen
from gateway.color import ColorChoice

if TYPE_CHECKING:
    from roundturn.settings import Settings

SCENARIO_FORM = """\
A scenario file; `match` is a part of the message, or re: and a pattern:
  {"scenarios": [{
    "name": "ship",
    "match": "re:(?i)ship",
    "steps": [
      {"text": "I build it.", "calls": [{"name": "bash", "arguments": {"command": "make"}}]},
      {"text": "Shipped:\\n{{results}}"}
    ]
  }]}"""


def become_worker(settings: "Settings", verbose: bool) -> NoReturn:
    """The same pid goes on as `python -m worker`, so that whoever started us can signal it.

    `-P`: a folder named `worker` in the working directory is not ours.
    """
    environ = os.environ | {"ROUNDTURN_HOME": str(settings.home)}
    if verbose:
        environ["ROUNDTURN_LOG_LEVEL"] = "debug"
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "worker"], environ)


def dev_here(
    settings: "Settings",
    port: int | None,
    headless: bool,
    scenario: Path | None,
    color: ColorChoice,
    verbose: bool,
) -> int:
    from gateway.dev.serve import run_dev

    started = run_dev(settings, port=port, headless=headless, color=color, verbose=verbose, scenario=scenario)
    return asyncio.run(started)


def demo_here(home: Path | None, auto: bool, color: ColorChoice, verbose: bool) -> int:
    from gateway.dev.demo import run_demo

    interactive = not auto and sys.stdin.isatty() and sys.stderr.isatty()
    return asyncio.run(run_demo(home, interactive=interactive, color=color, verbose=verbose))


def register(app: typer.Typer) -> None:
    worker_more = more(
        "roundturn worker",
        "roundturn worker --home /srv/roundturn",
        "TEMPORAL_ADDRESS=temporal.example:7233 roundturn worker --verbose",
        codes=(Code.TERMINATED,),
    )
    dev_more = more(
        "roundturn dev",
        "roundturn dev --home ./try --port 7300",
        "roundturn dev --scenario ship.json",
        "roundturn dev --headless > dev.log 2>&1 &",
    )
    dev_more = f"{dev_more}\n\n\b\n{SCENARIO_FORM}"
    demo_more = more("roundturn demo", "roundturn demo --auto", "roundturn demo --home ./try --verbose")

    @app.command(epilog=worker_more)
    def worker(color: Color = "auto", home: Home = None, verbose: Verbose = False) -> int:
        """Run a worker in the foreground until SIGTERM or Ctrl-C; what runs is finished or handed on."""
        return guarded(lambda settings: become_worker(settings, verbose), Screen(color=color), home, verbose)

    @app.command(epilog=dev_more)
    def dev(
        port: Annotated[
            int | None, typer.Option("--port", min=1, max=65535, metavar="N", help="Where to listen.")
        ] = None,
        headless: Annotated[bool, typer.Option("--headless", help="Without the Temporal UI.")] = False,
        scenario: Annotated[
            Path | None,
            typer.Option(
                "--scenario", metavar="FILE", help="What the scripted model says (JSON, see below)."
            ),
        ] = None,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Run everything on this machine: Temporal, the store, a worker; one Ctrl-C ends all."""
        return guarded(
            lambda settings: dev_here(settings, port, headless, scenario, color, verbose),
            Screen(color=color),
            home,
            verbose,
        )

    @app.command(epilog=demo_more)
    def demo(
        auto: Annotated[bool, typer.Option("--auto", help="Ask nobody; for CI.")] = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Three agents work on an incident; worker and Temporal are killed, and what must hold is counted."""
        return guarded(
            lambda settings: demo_here(home, auto, color, verbose), Screen(color=color), home, verbose
        )
