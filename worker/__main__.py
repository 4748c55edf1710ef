"""`python -m worker`: one worker process on the settings of the environment and the home."""

import sys

import uvloop

from roundturn import settings
from roundturn.errors import AuthorError, ConfigurationError, RoundturnError
from worker.runtime import run_worker


def main() -> int:
    try:
        uvloop.run(run_worker(settings.load()))
    except RoundturnError as fault:
        print(fault.lines(), file=sys.stderr)  # noqa: T201 - the person who started it reads this
        # The command line's codes, as this may be its process: 2 is for who wrote it, 7 passes by itself.
        return 2 if isinstance(fault, ConfigurationError | AuthorError) else 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
