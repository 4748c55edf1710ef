"""The port to whatever keeps the processes of tools apart from the worker's machine (X-08, X-10, P132)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from roundturn.errors import ToolFailed


class SandboxRefused(ToolFailed):
    """The command was not started, because it could not have been confined."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The sandbox refuses: {why}", "not_started")


@dataclass(frozen=True)
class Confinement:
    """What a sandbox keeps from a command; only what has been tried counts."""

    name: str
    hides_state: bool
    hides_network: bool

    @property
    def is_complete(self) -> bool:
        """Whether a command reaches neither the functions that decide about it nor the network."""
        return self.hides_state and self.hides_network


@dataclass(frozen=True)
class Command:
    """One process to be: its program by an absolute path, where it starts and all of its environment.

    `hidden`: paths it must not see, even inside `cwd`. `reads`: trees it needs beyond the system's own.
    `writable`: whether it may change `cwd`.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    hidden: tuple[Path, ...] = ()
    reads: tuple[Path, ...] = ()
    writable: bool = True


class Sandbox(Protocol):
    """One per worker, so that a child session has never a weaker one than its parent (X-08)."""

    @property
    def confinement(self) -> Confinement: ...

    def confine(self, command: Command) -> Command:
        """The command that really is started for this one. Raises `SandboxRefused`."""
        ...
