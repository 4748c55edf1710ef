"""`inspect chain`: the order in which a tool call meets the layers."""

from typing import TYPE_CHECKING

import typer

from gateway.cli.command import guarded
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Home, Json, Verbose
from gateway.cli.screen import Screen

if TYPE_CHECKING:
    from roundturn.settings import Settings


def print_chain(_settings: "Settings", screen: Screen) -> int:
    """The built-in layers; an embedder's own are not known here."""
    from roundturn.middleware import ORDER

    if screen.mode == "json":
        screen.items([{"position": n, "layer": layer} for n, layer in enumerate(ORDER, 1)])
    else:
        for n, layer in enumerate(ORDER, 1):
            screen.data(f"{n}\t{layer}" if not screen.terminal else f"{n:>2}  {layer}")
    return Code.DONE


def register(app: typer.Typer) -> None:
    chain_more = more(
        "roundturn inspect chain",
        "roundturn inspect chain --json",
        "roundturn inspect chain | cut -f2",
    )

    @app.command(epilog=chain_more)
    def chain(json: Json = False, color: Color = "auto", home: Home = None, verbose: Verbose = False) -> int:
        """Print the layers around every tool call, outermost first."""
        screen = Screen("json" if json else "text", color=color)
        return guarded(lambda settings: print_chain(settings, screen), screen, home, verbose)
