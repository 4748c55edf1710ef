"""The one record of live rules, written whole."""

from typing import Any

from sqlalchemy import Row, select

from roundturn.live_rules import LiveRulesRow
from roundturn.stores.engine import Database, Tx, each_dialect, reading, writing
from roundturn.stores.tables import live_rules, now_ms

# Named so that they can stand beside another table's.
COLUMNS = tuple(live_rules.c[name].label(f"live_{name}") for name in ("text", "version", "actor", "at"))
READ = select(*COLUMNS)


def _replacing(insert: Any) -> Any:
    new = insert(live_rules).values(id=1, version=1, at=now_ms())
    changed = {
        "text": new.excluded.text,
        "version": live_rules.c.version + 1,
        "actor": new.excluded.actor,
        "at": new.excluded.at,
    }
    differs = live_rules.c.text != new.excluded.text
    return new.on_conflict_do_update(index_elements=["id"], set_=changed, where=differs)


REPLACE = each_dialect(_replacing)


class SqlLiveRules:
    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def read(self, tx: Tx) -> LiveRulesRow | None:
        return _read(tx)

    @writing
    def replace(self, tx: Tx, text: str, actor: str) -> LiveRulesRow:
        tx.execute(REPLACE[tx.dialect.name], {"text": text, "actor": actor})
        row = _read(tx)
        assert row is not None
        return row


def live_row(row: Row[Any]) -> LiveRulesRow | None:
    """Of the columns beside another table's; None where the join found nothing."""
    if row.live_text is None:
        return None
    return LiveRulesRow(row.live_text, row.live_version, row.live_actor, row.live_at)


def _read(tx: Tx) -> LiveRulesRow | None:
    row = tx.execute(READ).one_or_none()
    return None if row is None else live_row(row)
