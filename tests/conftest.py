"""Fixtures that every part of the suite uses."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import hypothesis
import pytest

from tests.postgresql import PostgresServer
from tests.system import System, TemporalServer, open_system

# A shared machine is slow at some moments; that says nothing about a property.
hypothesis.settings.register_profile(
    "roundturn", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("roundturn")


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `roundturn.toml` in the checkout is its owner's; it decides nothing here."""
    monkeypatch.chdir(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """One server for the whole run; each test has a task queue of its own."""
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """One server for each test process; each test has a database of its own."""
    server = PostgresServer()
    yield server
    server.close()


class OpenSystem(Protocol):
    async def __call__(
        self, *scenarios: dict[str, Any], server: TemporalServer | None = None, **settings: Any
    ) -> System: ...


@pytest.fixture
async def system(tmp_path: Path, temporal: TemporalServer) -> AsyncIterator[OpenSystem]:
    """`await system(scenario, …, setting=value)`: everything but the worker, which the test starts."""
    opened: list[Any] = []

    async def open_(
        *scenarios: dict[str, Any], server: TemporalServer | None = None, **settings: Any
    ) -> System:
        context = open_system(
            tmp_path / f"home{len(opened)}", server or temporal, list(scenarios), **settings
        )
        opened.append(context)
        return await context.__aenter__()

    yield open_
    for context in reversed(opened):
        await context.__aexit__(None, None, None)
