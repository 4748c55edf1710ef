"""Puts live rules into force and says which are: one record for every session of the installation (R-18)."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from gateway.client import Client
from roundturn.errors import Refused
from roundturn.live_rules import LiveRulesRow, written
from roundturn.rules import Rule
from roundturn.settings import Settings

log = structlog.get_logger()


@dataclass(frozen=True)
class Changed:
    """`before`: what was in force; the same as `row` if nothing had to change."""

    row: LiveRulesRow
    before: LiveRulesRow | None


async def in_force(client: Client) -> LiveRulesRow | None:
    """None: there were never any."""
    return await client.store.live_rules.read()


async def put(client: Client, settings: Settings, rules: Sequence[Rule], actor: str) -> Changed:
    """In the place of all that are there; none ends them. Every session's next call is judged by them.

    A rule that lets calls pass unasked is a person's answer ahead of the question, so it is accepted without a token
    only where answers are (design section 6). Raises `Refused`, and `ConfigurationError` for what cannot hold live.
    """
    waives = any(rule.effect == "auto_approve" for rule in rules)
    if waives and not settings.allow_unverified_verdicts:
        raise Refused(
            "auto_approve answers for a person, and answers without a token are not accepted here",
            "set ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS=true where everybody on this machine may approve",
        )
    text = written(rules)
    before = await in_force(client)
    row = await client.store.live_rules.replace(text, actor)
    if row != before:
        log.info("live_rules.set", version=row.version, actor=actor, rules=[rule.id for rule in rules])
    return Changed(row, before)
