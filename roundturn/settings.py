"""Settings are read once at start, from the environment over `roundturn.toml` over what `dev` wrote, and then frozen."""

import difflib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from roundturn.errors import ConfigurationError
from roundturn.faults import first_fault, rule_at, toml
from roundturn.rules import Policy

FILE_NAME = "roundturn.toml"
PREFIX = "ROUNDTURN_"
YEAR_S = 366 * 24 * 3600
NESTED = (f"{PREFIX}POLICY",)  # ROUNDTURN_POLICY__DENY and its like
WORK = "work"  # the folder of the home that holds the sessions' own action directories; the rest is state
# Temporal's and PostgreSQL's clients read these: https://docs.temporal.io/develop/environment-configuration
SECRETS = ("OPENAI_API_KEY", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "PGPASSWORD")
SENT_TO_TEMPORAL = "TEMPORAL_GRPC_META_"
DEV_FILE = "dev.json"  # the addresses of a running `roundturn dev`, inside the home


class Settings(BaseSettings):
    """Each field is `ROUNDTURN_<NAME>` in the environment and `<name>` in `roundturn.toml`; unknown names are refused.

    Names end in their unit. `home` holds the store, blobs, logs and the sessions' action directories.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", env_ignore_empty=True, frozen=True, extra="forbid"
    )

    home: Path = Path(".roundturn")
    database_url: str = ""
    agents_dir: Path | None = None

    temporal_address: str = ""  # empty: what TEMPORAL_* variables and profiles say
    temporal_namespace: str = "default"
    task_queue: str = "roundturn"

    model: str = "gpt-5-mini"
    model_base_url: str = ""
    model_api_key: SecretStr = SecretStr("")
    model_timeout_s: float = Field(default=600, gt=0, le=YEAR_S)
    model_attempts: int = Field(default=4, ge=1)

    max_steps: int = Field(default=10, ge=1)
    approval_ttl_s: float = Field(default=24 * 3600, gt=0, le=10 * YEAR_S)
    result_budget_bytes: int = Field(default=32 * 1024, ge=1024)
    max_actions_per_hour: int = Field(default=200, ge=0)
    allow_unverified_verdicts: bool = False
    policy: Policy = Policy()
    privileged_tools: tuple[str, ...] = ()
    work_roots: tuple[Path, ...] = ()
    sandbox: Literal["auto", "bwrap", "none"] = "none"

    heartbeat_timeout_s: float = Field(default=4, ge=1, le=YEAR_S)
    workflow_task_timeout_s: float = Field(default=3, ge=1, le=YEAR_S)
    reconcile_interval_s: float = Field(default=10, ge=1, le=YEAR_S)
    workflow_sandbox: bool = False  # tests turn it on: it refuses workflow code that would not replay
    drain_s: float = Field(default=10, ge=0, le=YEAR_S)
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")

    @field_validator("home", "agents_dir")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    @field_validator("work_roots")
    @classmethod
    def _real(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(path.expanduser().resolve() for path in paths)

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'roundturn.db'}"

    @property
    def tools_queue(self) -> str:
        """Where side-effecting tools run, so that a slow shell job delays nobody (design section 3)."""
        return f"{self.task_queue}-tools"


def load(home: Path | None = None, **given: Any) -> Settings:
    """The one read. `given` beats the environment, which beats the files. Raises `ConfigurationError`."""
    _refuse_unknown(os.environ)
    if home is not None:
        given["home"] = home
    here = _toml(Path(FILE_NAME))
    default = here.get("home") or Settings.model_fields["home"].default
    root = Path(str(given.get("home") or os.environ.get(f"{PREFIX}HOME") or default)).expanduser()
    files = [_openai(os.environ), _toml(root / FILE_NAME), here, _dev(root / DEV_FILE)]
    try:
        return _sourced(files)(**given)
    except SettingsError as fault:
        raise ConfigurationError(
            f"{fault}: {fault.__cause__}", "lists and tables in the environment are JSON"
        ) from None
    except ValidationError as fault:
        place, said = first_fault(fault, Settings)
        name, *below = (place or "settings").split(".")
        variable = f"{PREFIX}{name}".upper() + (f"__{below[0]}".upper() if len(below) == 1 else "")
        raise ConfigurationError(
            f"setting {place or 'settings'}{rule_at(place, files)}: {said}",
            f"it is read from {variable}, {root / FILE_NAME} and {Path(FILE_NAME).absolute()}",
        ) from None


def held_secrets(settings: Settings, environ: Mapping[str, str]) -> set[str]:
    """What this process was given to open doors with, by us or by the clients that read the environment themselves."""
    found = {settings.model_api_key.get_secret_value()}
    for url in (settings.database_url, settings.model_base_url):
        with suppress(ValueError):
            written = urlsplit(url).password or ""
            found |= {written, unquote(written)}
    named = {name for name in environ if name in SECRETS or name.startswith(SENT_TO_TEMPORAL)}
    return found | {environ[name] for name in named}


def _sourced(files: list[dict[str, Any]]) -> type[Settings]:
    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                init_settings,
                env_settings,
                *(InitSettingsSource(settings_cls, values) for values in files),
            )

    return Sourced


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """A limit that is misspelt must not be silently inert (P97)."""
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    for name in environ:
        if name.startswith(PREFIX) and name not in known and name.split("__")[0] not in NESTED:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigurationError(
                f"unknown setting {name} in the environment",
                f"did you mean {near[0]}?" if near else "unset it",
            )


def _openai(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {"model_api_key": "OPENAI_API_KEY", "model_base_url": "OPENAI_BASE_URL"}
    return {field: environ[name] for field, name in names.items() if environ.get(name)}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return toml(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as fault:
        raise ConfigurationError(f"{path} cannot be read: {fault}") from None


def _dev(path: Path) -> dict[str, Any]:
    """What a `roundturn dev` on this home wrote when all was up; absent otherwise."""
    try:
        found: dict[str, Any] = dict(json.loads(path.read_text())["settings"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ConfigurationError(
            f"{path} cannot be read: {fault}", "remove it and start roundturn dev again"
        ) from None
    return found
