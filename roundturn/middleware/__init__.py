"""The chain in its one order (design section 4); an embedder's own layers stand between shaping and validation."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from roundturn.call import Middleware
from roundturn.middleware.approval import Approval
from roundturn.middleware.audit import Audit
from roundturn.middleware.claim import Claim
from roundturn.middleware.policy import Policy
from roundturn.middleware.recovery import recovery
from roundturn.middleware.shaping import Shaping
from roundturn.middleware.validation import Validation
from roundturn.registry import ToolRegistry
from roundturn.store import Store

ORDER = ("audit", "recovery", "shaping", "validation", "policy", "approval", "claim")  # outermost first


def install(
    registry: ToolRegistry,
    store: Store,
    *,
    approval_ttl: timedelta,
    result_budget_bytes: int,
    redact: Callable[[Any], Any],
    clock: Callable[[], datetime],
    extra: Iterable[Middleware] = (),
) -> None:
    """Registers every layer, outermost first, and closes the chain."""
    layers: tuple[Middleware, ...] = (
        Audit(store.ledger, clock),
        recovery,
        Shaping(store.blobs, result_budget_bytes),
        *extra,
        Validation(registry),
        Policy(registry),
        Approval(store.approvals, approval_ttl, redact),
        Claim(store.ledger, clock),
    )
    for layer in layers:
        registry.use(layer)
    registry.close_chain()
