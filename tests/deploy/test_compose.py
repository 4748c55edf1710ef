"""The compose file is valid, agrees with its example and the settings, starts in order and publishes next to nothing."""

import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from roundturn.settings import PREFIX, Settings
from tests.deploy.composition import COMPOSE_FILE, FILLED_IN, ROOT, config, example, services
from tests.postgresql import PostgresServer
from tests.requirements import requirement

OURS = ("migrate", "worker")
NOT_PINNED = re.compile(r"^[^:]+$|:(latest|\d+)$")


def seconds(duration: str) -> float:
    """Of Compose's notation, `1m30s`."""
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration)
    assert parts, duration
    return timedelta(minutes=int(parts[1] or 0), seconds=int(parts[2] or 0)).total_seconds()


def test_compose_reads_the_file_with_the_example_filled_in() -> None:
    assert {"postgresql", "temporal", "temporal-ui", *OURS} <= set(services())


@pytest.mark.parametrize("missing", FILLED_IN)
def test_a_password_that_is_not_set_is_refused_by_name(missing: str) -> None:
    read = config(**example() | {name: "x" for name in FILLED_IN if name != missing})
    assert read.returncode != 0
    assert missing in read.stderr


def test_the_example_names_exactly_what_the_file_asks_for() -> None:
    asked = set(re.findall(r"\$\{(\w+)", COMPOSE_FILE.read_text()))
    assert asked == set(example())


def test_the_example_holds_no_password() -> None:
    assert {name for name in example() if "PASSWORD" in name or "KEY" in name} == {
        name for name, value in example().items() if not value and "URL" not in name
    }


@pytest.mark.parametrize("name", OURS)
def test_every_setting_in_the_file_exists_and_is_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {key: value for key, value in services()[name]["environment"].items() if key.startswith(PREFIX)}
    assert {key.removeprefix(PREFIX).lower() for key in given} <= set(Settings.model_fields)
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    settings = Settings()
    assert settings.store_url == "postgresql+asyncpg://roundturn:two@postgresql:5432/roundturn"
    assert settings.model == "gpt-5-mini"


def test_no_other_service_is_given_settings_of_ours() -> None:
    others = {name: found for name, found in services().items() if name not in OURS}
    assert not [
        name
        for name, found in others.items()
        if any(key.startswith(PREFIX) for key in found.get("environment", {}))
    ]


def test_images_of_others_are_pinned_and_temporal_and_its_tools_are_of_one_version() -> None:
    images = {name: found["image"] for name, found in services().items() if name not in OURS}
    assert not [image for image in images.values() if NOT_PINNED.search(image)]
    versions = {images[name].rsplit(":")[1] for name in images if name not in ("postgresql", "temporal-ui")}
    assert len(versions) == 1


def test_only_the_ui_is_published_and_only_on_loopback() -> None:
    published = [
        (name, port.get("host_ip")) for name, found in services().items() for port in found.get("ports", ())
    ]
    assert published == [("temporal-ui", "127.0.0.1")]


def test_the_worker_waits_for_the_migration_and_the_namespace() -> None:
    waits = {name: how["condition"] for name, how in services()["worker"]["depends_on"].items()}
    assert waits == dict.fromkeys(("migrate", "temporal-namespace"), "service_completed_successfully")
    assert services()["migrate"]["command"] == ["roundturn", "db", "upgrade"]
    assert services()["migrate"]["depends_on"]["postgresql"]["condition"] == "service_healthy"
    assert "healthcheck" in services()["postgresql"]


@requirement("P113")
def test_a_worker_has_longer_to_stop_than_it_drains() -> None:
    worker = services()["worker"]
    grace, drain = seconds(worker["stop_grace_period"]), float(worker["environment"]["ROUNDTURN_DRAIN_S"])
    assert grace >= drain + 10


def test_many_workers_can_run_beside_each_other() -> None:
    worker = services()["worker"]
    assert worker["deploy"]["replicas"] == 2
    assert "container_name" not in worker
    assert "ports" not in worker


def test_the_number_of_history_shards_is_the_one_that_can_never_change() -> None:
    assert services()["temporal"]["environment"]["NUM_HISTORY_SHARDS"] == "512"


def test_files_that_are_mounted_are_there_and_read_only() -> None:
    mounts = [
        mount
        for found in services().values()
        for mount in found.get("volumes", ())
        if mount["type"] == "bind"
    ]
    assert len(mounts) == 2
    for mount in mounts:
        assert Path(mount["source"]).is_file()
        assert mount["read_only"]


@requirement("P131")
def test_passwords_of_the_store_and_of_temporal_go_only_where_they_are_used() -> None:
    def holders(password: str) -> set[str]:
        return {
            name
            for name, found in services().items()
            if password in str(found.get("environment", {}).values())
        }

    assert holders("'one'") == {"postgresql"}
    assert holders("two") == {"postgresql", *OURS}
    assert holders("three") == {"postgresql", "temporal-schema", "temporal"}


async def test_the_database_is_of_the_version_that_the_tests_run_on(postgresql: PostgresServer) -> None:
    image = services()["postgresql"]["image"]
    assert image == f"postgres:{await postgresql.version()}"


def test_the_image_gets_only_what_it_is_built_from() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*", "everything is left out, then named"
    named = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE
    )
    assert named == {name for line in copied for name in line.split()}


def test_the_linter_finds_nothing_in_the_dockerfile() -> None:
    linted = subprocess.run(
        [str(Path(sys.executable).parent / "hadolint"), "--failure-threshold", "style", str(ROOT / "deploy" / "Dockerfile")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")


def test_all_that_the_wheel_is_made_of_reaches_the_image() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = re.findall(r"^COPY (\S+) \1$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert set(wheel["only-include"]) == set(copied)
