"""How big the scale proofs are: small ones run with the whole suite, full ones with `make scale`."""

import os
from typing import Any

FULL = os.environ.get("TEST_SCALE") == "full"

# What is measured is a worker as in production: without the workflow sandbox, at the default interval of repairs.
PRODUCTION: dict[str, Any] = {"workflow_sandbox": False, "reconcile_interval_s": 10}
LIMIT_S = 1200.0 if FULL else 120.0


def size(small: int, full: int) -> int:
    return full if FULL else small
