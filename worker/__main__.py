"""`python -m worker`: one worker process on the settings of the environment and the home."""

import sys

import uvloop

from roundturn import settings
from roundturn.errors import RoundturnError
from worker.runtime import run_worker


def main() -> int:
    try:
        uvloop.run(run_worker(settings.load()))
    except RoundturnError as fault:
        print(f"{fault.detail}\n{fault.hint}".strip(), file=sys.stderr)  # noqa: T201 - the person who started it reads this
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
