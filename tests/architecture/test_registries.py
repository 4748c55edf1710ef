"""Registries are literal mappings: what is in a folder is listed, what is listed is in the folder."""

import importlib
import inspect
import pkgutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import roundturn.middleware
import roundturn.tools
from roundturn.agent import parse_definition
from roundturn.registry import ToolRegistry
from roundturn.store import Store
from roundturn.tool import BaseTool
from roundturn.tools import BUILTIN, CONFINED, DELEGATION
from tests.architecture.source import ROOT
from tests.requirements import requirement

# Design section 4, and the claim as the innermost layer (docs/decisions/0002).
ORDER = [
    "audit", "recovery", "shaping", "focus", "validation", "published", "policy", "action_budget", "approval", "claim",
]  # fmt: skip


def _modules(package: object) -> list[str]:
    return [found.name for found in pkgutil.iter_modules(package.__path__)]  # type: ignore[attr-defined]


@requirement("T-09", "T-16")
def test_every_tool_in_the_folder_is_listed_under_its_own_name() -> None:
    defined: set[type[BaseTool]] = set()
    for name in _modules(roundturn.tools):
        module = importlib.import_module(f"roundturn.tools.{name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(cls, BaseTool)
                and cls.__module__ == module.__name__
                and not inspect.isabstract(cls)
            ):
                defined.add(cls)
    listed = {**BUILTIN, **CONFINED, **DELEGATION}
    assert defined == set(listed.values())
    assert [cast(type[BaseTool], cls).name for cls in listed.values()] == list(listed)


@requirement("M-12", "M-03")
def test_every_middleware_in_the_folder_is_in_the_chain_in_the_documented_order() -> None:
    registry = ToolRegistry()
    nothing = cast(Store, SimpleNamespace(ledger=None, blobs=None, approvals=None, actions=None))
    roundturn.middleware.install(
        registry,
        nothing,
        approval_ttl=timedelta(hours=24),
        result_budget_bytes=1024,
        max_actions_per_hour=1,
        redact=lambda value: value,
        mask=cast(Any, None),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert registry.chain == ORDER
    assert set(_modules(roundturn.middleware)) == set(ORDER)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "roundturn" / "agents").glob("*.md")), ids=lambda path: path.name
)
def test_an_agent_of_ours_can_be_read_and_has_the_name_of_its_file(path: Path) -> None:
    assert parse_definition(path.read_text(), path.name).name == path.stem
