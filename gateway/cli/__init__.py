"""The command line: what people type and what scripts call; it decides nothing, `gateway.client` does."""

import os
from typing import NoReturn


def main() -> NoReturn:
    """The entry point `roundturn`."""
    try:
        from gateway.cli.app import start

        start()
    except KeyboardInterrupt:  # while we are still being imported
        os._exit(130)
