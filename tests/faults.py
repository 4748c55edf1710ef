"""Faults at named points: a process kills itself, fails or is held up at one transaction of one port, once."""

import asyncio
import os
import signal
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from roundturn.store import Store

VARIABLE = "TEST_FAULT"  # PORT.METHOD:before|after|defect|held:MARKER_FILE[:NTH]


def faulty(store: Store) -> Store:
    """The store as it is, or with the fault that the environment asks for."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return store
    where, when, marker, *nth = wanted.split(":")
    port, method = where.split(".")
    assert port in {field.name for field in fields(Store)}
    ports: dict[str, Any] = {
        port: _Faulty(getattr(store, port), method, when, Path(marker), int(*nth or ["1"]))
    }
    return replace(store, **ports)


def released(marker: Path) -> Path:
    """The file that lets go of what is held."""
    return marker.with_suffix(".released")


class _Faulty:
    def __init__(self, port: Any, method: str, when: str, marker: Path, nth: int) -> None:
        self._port = port
        self._method = method
        self._when = when
        self._marker = marker
        self._left = nth
        assert hasattr(port, method), method

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name != self._method:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._when == "before":
                self._die()
            if self._when == "defect" and self._due():
                raise RuntimeError("a defect that the test asked for")
            result = await found(*args, **kwargs)
            if self._when == "after":
                self._die()
            if self._when == "held" and self._due():
                while not released(self._marker).exists():
                    await asyncio.sleep(0.02)
            return result

        return call

    def _die(self) -> None:
        if self._due():
            os.kill(os.getpid(), signal.SIGKILL)

    def _due(self) -> bool:
        """Only the first process that comes here: the marker outlives it."""
        self._left -= 1
        if self._left:
            return False
        try:
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
