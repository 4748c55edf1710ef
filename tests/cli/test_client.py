"""The client by itself: where a session may work, and that the commands ask it and not its store."""

from pathlib import Path

import pytest

from gateway import cli
from gateway.client import open_client
from gateway.upgrade import upgrade_store
from roundturn import settings
from roundturn.errors import UsageError
from tests.cli.conftest import OpenDesk


async def workdir_of(home: Path, workdir: Path) -> str:
    found = settings.load(home)
    await upgrade_store(found.store_url, 10)
    async with open_client(found, temporal=False) as client:
        return (await client.open_session("assistant", workdir)).action_dir


@pytest.mark.parametrize("inside", [".", "blobs", "work/../logs", "workshop", "link"])
async def test_a_session_does_not_work_where_the_state_lives(tmp_path: Path, inside: str) -> None:
    home = tmp_path / "home"
    for name in ("work", "blobs", "logs", "workshop"):
        (home / name).mkdir(parents=True)
    (home / "link").symlink_to(home / "blobs")
    with pytest.raises(UsageError, match="inside") as refused:
        await workdir_of(home, home / inside)
    assert str(home / "work") in refused.value.hint


@pytest.mark.parametrize("where", ["home/work/mine", ".", "elsewhere", "homestead"])
async def test_a_session_works_beside_the_state_or_around_it(tmp_path: Path, where: str) -> None:
    workdir = tmp_path / where
    workdir.mkdir(parents=True, exist_ok=True)
    assert await workdir_of(tmp_path / "home", workdir) == str(workdir.resolve())


async def test_a_workdir_inside_the_state_is_wrong_usage_and_starts_nothing(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    done = await d.roundturn("run", "hello", "--workdir", str(d.system.home), "--json")
    assert (done.code, done.out, done.error["type"]) == (2, "", "usage")
    assert (await d.roundturn("sessions", "--json")).document["items"] == []


def test_the_commands_ask_the_client_and_not_its_store() -> None:
    modules = Path(cli.__file__).parent.glob("*.py")
    assert [path.name for path in modules if "client.store" in path.read_text()] == []
