"""The command line: what people type and what scripts call; it decides nothing, `gateway.client` does."""

from typing import NoReturn


def main() -> NoReturn:
    """The entry point `roundturn`."""
    from gateway.cli.app import start

    start()
