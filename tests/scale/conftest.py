"""A server that suggests to continue as new often, so that one turn or session of these tests does it many times."""

from collections.abc import Iterator

import pytest

from tests.scale.size import size
from tests.system import TemporalServer

EVENTS = size(60, 1000)


@pytest.fixture(scope="session")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    server = TemporalServer(
        tmp_path_factory.mktemp("rolling"), f"limit.historyCount.suggestContinueAsNew={EVENTS}"
    )
    server.start()
    yield server
    server.kill()
