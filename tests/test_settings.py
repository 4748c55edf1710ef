"""Settings: read once, from the named places in the stated order; what cannot be meant is refused with the place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roundturn.errors import ConfigurationError
from roundturn.settings import Settings, held_secrets, load
from tests.requirements import requirement


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process's environment and folder are the input here."""
    for name in list(os.environ):
        if name.startswith(("ROUNDTURN_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_anything_the_defaults_hold_and_the_home_is_absolute(tmp_path: Path) -> None:
    settings = load()
    assert settings.home == tmp_path / ".roundturn"
    assert settings.store_url == f"sqlite:///{tmp_path}/.roundturn/roundturn.db"
    assert settings.tools_queue == "roundturn-tools"
    assert (settings.max_steps, settings.approval_ttl_s) == (10, 24 * 3600)
    assert not settings.allow_unverified_verdicts
    with pytest.raises(ValueError, match="frozen"):
        settings.max_steps = 3  # type: ignore[misc]


def test_given_beats_environment_beats_the_homes_file_beats_the_folders_beats_dev(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    write(home / "dev.json", json.dumps({"settings": {"model": "dev", "task_queue": "dev"}}))
    assert load(home).task_queue == "dev"
    write(tmp_path / "roundturn.toml", 'model = "folder"\nmax_steps = 1\n')
    assert (load(home).model, load(home).task_queue) == ("folder", "dev")
    write(home / "roundturn.toml", 'model = "home"\n')
    assert (load(home).model, load(home).max_steps) == ("home", 1)
    monkeypatch.setenv("ROUNDTURN_MODEL", "environment")
    assert load(home).model == "environment"
    assert load(home, model="given").model == "given"


def test_the_model_server_is_read_from_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    settings = load()
    assert settings.model_api_key.get_secret_value() == "sk-canary"
    assert settings.model_base_url == "http://localhost:1/v1"
    assert "canary" not in repr(settings)


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "roundturn.toml", "max_steps = 7\n")
    for name in ("HOME", "MAX_STEPS", "MODEL", "POLICY", "DATABASE_URL", "AGENTS_DIR"):
        monkeypatch.setenv(f"ROUNDTURN_{name}", "")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    settings = load()
    assert settings.home == tmp_path / ".roundturn"
    assert (settings.max_steps, settings.agents_dir) == (7, None)


def test_a_home_with_a_tilde_is_the_users_also_when_its_files_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("ROUNDTURN_HOME", "~/state")
    write(tmp_path / "user" / "state" / "roundturn.toml", "max_steps = 5\n")
    settings = load()
    assert (settings.home, settings.max_steps) == (tmp_path / "user" / "state", 5)


def test_a_home_named_in_the_folders_file_is_where_the_rest_is_read(tmp_path: Path) -> None:
    write(tmp_path / "roundturn.toml", 'home = "elsewhere"\n')
    write(tmp_path / "elsewhere" / "dev.json", json.dumps({"settings": {"task_queue": "dev"}}))
    settings = load()
    assert (settings.home, settings.task_queue) == (tmp_path / "elsewhere", "dev")


def test_policy_lists_of_file_and_environment_come_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "roundturn.toml", '[policy]\nallow = ["read_*"]\ndeny = ["x"]\n')
    monkeypatch.setenv("ROUNDTURN_POLICY__DENY", '["bash"]')
    policy = load().policy
    assert (policy.allow, policy.ask, policy.deny) == (("read_*",), (), ("bash",))


@requirement("P97")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ROUNDTURN_MAX_STEP", "3", "unknown setting ROUNDTURN_MAX_STEP"),
        ("ROUNDTURN_MAX_STEPS__X", "3", "unknown setting"),
        ("ROUNDTURN_", "3", "unknown setting"),
        ("ROUNDTURN_POLICY__DENNY", '["bash"]', r"policy\.denny"),
        ("ROUNDTURN_POLICY__DENY", "bash", "policy"),
        ("ROUNDTURN_POLICY", "not json", "policy"),
        ("ROUNDTURN_POLICY", '["bash"]', "policy"),
        ("ROUNDTURN_MAX_STEPS", "many", "max_steps"),
        ("ROUNDTURN_MAX_STEPS", "0", "max_steps"),
        ("ROUNDTURN_MAX_STEPS", "-1", "max_steps"),
        ("ROUNDTURN_APPROVAL_TTL_S", "-5", "approval_ttl_s"),
        ("ROUNDTURN_APPROVAL_TTL_S", "inf", "approval_ttl_s"),
        ("ROUNDTURN_APPROVAL_TTL_S", "nan", "approval_ttl_s"),
        ("ROUNDTURN_APPROVAL_TTL_S", "1e300", "approval_ttl_s"),
        ("ROUNDTURN_HEARTBEAT_TIMEOUT_S", "inf", "heartbeat_timeout_s"),
        ("ROUNDTURN_DRAIN_S", "-1", "drain_s"),
        ("ROUNDTURN_RESULT_BUDGET_BYTES", "10", "result_budget_bytes"),
        ("ROUNDTURN_LOG_LEVEL", "loud", "log_level"),
        ("ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS", "perhaps", "allow_unverified_verdicts"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said) as refused:
        load()
    assert refused.value.hint


def test_a_misspelt_variable_is_told_what_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDTURN_MAX_STEP", "3")
    with pytest.raises(ConfigurationError) as refused:
        load()
    assert refused.value.hint == "did you mean ROUNDTURN_MAX_STEPS?"


@requirement("P97")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_step = 3\n", "setting max_step: there is no max_step here; did you mean max_steps?"),
        (
            '[policy]\ndenny = ["bash"]\n',
            r"setting policy\.denny: there is no denny here; did you mean deny\?",
        ),
        ('[policy]\ndeny = "bash"\n', r"setting policy\.deny: a list is wanted"),
        (
            '[policy]\nsandbox = "auto"\n',
            r"setting policy\.sandbox: there is no sandbox here; write it above policy",
        ),
        (
            '[[policy.rules]]\nid = "r"\neffect = "deny"\nmatch = { tool = "bash" }\n',
            r"rules\.0\.match\.tool \(rule r\): there is no tool here; there are name, origin, family",
        ),
        (
            '[[policy.rules]]\nid = "r"\neffect = "ask"\nmatch = { name = "bash" }\n',
            r"rules\.0\.effect \(rule r\): Input should be 'allow', 'deny'",
        ),
        (
            '[[policy.rules]]\nid = "r"\neffect = "deny"\nmatch = { name = "bash" }\nexcept = { nam = "x" }\n',
            r"except\.nam \(rule r\): there is no nam here; did you mean name\?",
        ),
        ('policy = "deny"\n', "setting policy"),
        ("x = " + "[" * 5_000, "roundturn.toml cannot be read"),
        ("max_steps = " + "9" * 5_000, "roundturn.toml cannot be read"),
        ("[tools]\nx = 1\n", "setting tools: there is no tools here"),
        ("max_steps = \n", "roundturn.toml cannot be read"),
        ("max_steps = -1\n", "setting max_steps"),
        ("home = 3\n", "setting home"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path / "roundturn.toml", text)
    with pytest.raises(ConfigurationError, match=said):
        load()


@pytest.mark.parametrize("name", ["roundturn.toml", "dev.json"])
def test_a_folder_or_other_bytes_in_the_place_of_a_file_are_a_clear_message(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "home" / name).mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
        load(tmp_path / "home")
    (tmp_path / "home" / name).rmdir()
    (tmp_path / "home" / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
        load(tmp_path / "home")


def test_a_file_in_the_place_of_the_home_is_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "home")


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", '{"settings": 3}', '{"settings": {"unheard": 1}}']
)
def test_addresses_of_dev_that_make_no_sense_are_a_clear_message(tmp_path: Path, content: str) -> None:
    write(tmp_path / "home" / "dev.json", content)
    with pytest.raises(ConfigurationError):
        load(tmp_path / "home")


def test_every_setting_is_one_that_the_environment_can_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, field in Settings.model_fields.items():
        value: Any = field.get_default()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value:
            monkeypatch.setenv(f"ROUNDTURN_{name.upper()}", str(value))
    assert load().model_dump() == Settings().model_dump()


@requirement("P131", "X-07")
def test_what_opens_doors_is_known_wherever_it_was_given() -> None:
    settings = load(
        model_api_key="key",
        database_url="postgresql+asyncpg://me:p%40ss@host/db",
        model_base_url="http://a:b@host/v1",
    )
    environ = {
        "TEMPORAL_API_KEY": "temporal",
        "TEMPORAL_GRPC_META_AUTHORIZATION": "meta",
        "PGPASSWORD": "pg",
        "TEMPORAL_ADDRESS": "host",
        "HOME": "home",
    }
    assert held_secrets(settings, environ) == {"key", "p%40ss", "p@ss", "b", "temporal", "meta", "pg"}
    assert held_secrets(load(database_url="sqlite:///x.db"), {}) == {""}
