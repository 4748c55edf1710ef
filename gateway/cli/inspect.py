"""`inspect chain`: the order in which a tool call meets the layers."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer

from gateway.cli.exits import Code
from gateway.cli.options import Color, Home, Json, Verbose, more
from gateway.cli.screen import Screen
from gateway.cli.stage import guarded

if TYPE_CHECKING:
    from roundturn.settings import Settings


def print_chain(settings: "Settings", screen: Screen) -> int:
    layers = built_in_chain(settings)
    if screen.mode == "json":
        screen.items([{"position": n, "layer": layer} for n, layer in enumerate(layers, 1)])
    else:
        for n, layer in enumerate(layers, 1):
            screen.data(f"{n}\t{layer}" if not screen.terminal else f"{n:>2}  {layer}")
    return Code.DONE


def built_in_chain(settings: "Settings") -> list[str]:
    """Installed as a worker does it, on a store that nobody opens; an embedder's own layers are not known here."""
    from roundturn import middleware
    from roundturn.registry import ToolRegistry
    from roundturn.stores import ports
    from roundturn.stores.engine import Database

    registry = ToolRegistry()
    middleware.install(
        registry,
        ports(Database(settings.store_url, 1), settings.home / "blobs"),
        approval_ttl=timedelta(seconds=settings.approval_ttl_s),
        result_budget_bytes=settings.result_budget_bytes,
        redact=lambda value: value,
        clock=lambda: datetime.now(UTC),
    )
    return registry.chain


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
