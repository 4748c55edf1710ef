"""Our errors become Temporal's, in this file only: what is tried again, when, and what never is."""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from roundturn.errors import ConfigurationError, ModelUnavailable, RoundturnError, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
NEVER_RETRIED = ("PayloadSizeError", "PayloadsTooLarge")  # a body that is too big stays too big


def translated(fault: Exception) -> ApplicationError:
    """The activity policy is the one owner of retries (P14); anything that is not `Unavailable` is final."""
    if isinstance(fault, ModelUnavailable):
        return ApplicationError(
            fault.detail, type="ModelUnavailable", next_retry_delay=_delay(fault.retry_after)
        )
    if isinstance(
        fault, Unavailable | ConfigurationError
    ):  # a store that became read-only is waited for, too
        return ApplicationError(fault.detail, type=type(fault).__name__)
    if isinstance(fault, RoundturnError):
        return ApplicationError(fault.detail, type=type(fault).__name__, non_retryable=True)
    return ApplicationError(f"{type(fault).__name__}: {fault}"[:500], type="Defect", non_retryable=True)


def translating(method: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Under `@activity.defn`: a defect ends the call with its name instead of being tried again without end (P109)."""

    @wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except ApplicationError:
            raise
        except Exception as fault:
            raise translated(fault) from fault

    return run


def shutting_down() -> ApplicationError:
    """A deploy is not a stop: another worker takes this up (P113)."""
    return ApplicationError("the worker is shutting down", type="WorkerShutdown")


def _delay(retry_after: timedelta | None) -> timedelta:
    """What the endpoint asked for, else exponential with full jitter, so that many turns do not come back at once."""
    if retry_after is not None:
        return retry_after
    ceiling = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (activity.info().attempt - 1))
    return timedelta(seconds=random.uniform(FIRST_DELAY_S / 4, ceiling))
