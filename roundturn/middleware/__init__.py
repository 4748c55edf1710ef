"""The chain in its one order (design section 4); an embedder's own layers stand between shaping and focus."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from roundturn.call import Middleware
from roundturn.middleware.action_budget import ActionBudget
from roundturn.middleware.approval import Approval
from roundturn.middleware.audit import Audit
from roundturn.middleware.claim import Claim
from roundturn.middleware.focus import Focus
from roundturn.middleware.policy import Policy
from roundturn.middleware.published import published
from roundturn.middleware.recovery import Recovery
from roundturn.middleware.shaping import Shaping
from roundturn.middleware.validation import Validation
from roundturn.registry import ToolRegistry
from roundturn.store import Store

# Outermost first.
ORDER = (
    "audit",
    "recovery",
    "shaping",
    "focus",
    "validation",
    "published",
    "policy",
    "action_budget",
    "approval",
    "claim",
)


def install(
    registry: ToolRegistry,
    store: Store,
    *,
    approval_ttl: timedelta,
    result_budget_bytes: int,
    max_actions_per_hour: int,
    redact: Callable[[Any], Awaitable[Any]],
    mask: Callable[[str], Awaitable[str]],
    clock: Callable[[], datetime],
    extra: Iterable[Middleware] = (),
) -> None:
    """Registers every layer, outermost first, and closes the chain.

    `redact` makes the copy of arguments that people see, `mask` what is kept of a text that came back.
    """
    layers: tuple[Middleware, ...] = (
        Audit(store.ledger, clock),
        Recovery(mask),
        Shaping(store.blobs, result_budget_bytes, mask),
        *extra,
        Focus(registry),
        Validation(registry),
        published,
        Policy(registry),
        ActionBudget(store.actions, max_actions_per_hour),
        Approval(store.approvals, approval_ttl, redact),
        Claim(store.ledger, clock),
    )
    for layer in layers:
        registry.use(layer)
    registry.close_chain()
