"""Run modes: in `build` a session may change things, in `plan` its tools only read (P-01)."""

from typing import Literal, get_args

RunMode = Literal["build", "plan"]
RUN_MODES: tuple[RunMode, ...] = get_args(RunMode)


def known_mode(text: str) -> RunMode | None:
    return next((mode for mode in RUN_MODES if mode == text), None)
