"""The live rules as a layer: understood once for each change, and each change that reaches this process is logged."""

import structlog

from roundturn.live_rules import NOTHING, LiveLayer, LiveRulesRow, understood


class LiveRules:
    """Keyed by the record itself, so that what is kept cannot be stale."""

    def __init__(self) -> None:
        self._row: LiveRulesRow | None = None
        self._layer = NOTHING

    def layer(self, row: LiveRulesRow | None) -> LiveLayer:
        if row != self._row:
            self._row, self._layer = row, understood(row)
            _tell(row, self._layer)
        return self._layer


def _tell(row: LiveRulesRow | None, found: LiveLayer) -> None:
    told = {"version": row.version if row else 0, "actor": row.actor if row else ""}
    if found.unreadable:
        structlog.get_logger().error("live_rules.unreadable", why=found.unreadable, **told)
    else:
        structlog.get_logger().info("live_rules.hold", rules=[rule.id for rule in found.layer.rules], **told)
