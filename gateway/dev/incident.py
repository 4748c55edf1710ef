"""The demo's job: an incident that three agents work on, where its files are, and how far its check has come."""

import shutil
from pathlib import Path

AGENT = "orchestrator"
PRIVILEGED = ("bash",)  # the runbook's check is a shell command
CONFIG = "config/checkout.toml"
WRONG, RIGHT = "timeout_ms = 8", "timeout_ms = 8000"
CHECKS = "checks.log"
BEGINS, ENDS = "check begins", "check ends"
REPORT = "outputs/report.md"


def folder() -> Path:
    """`examples/incident` of a clone; a wheel has it beside this file (see pyproject.toml)."""
    packed = Path(__file__).parent / "example"
    return packed if packed.is_dir() else Path(__file__).parents[2] / "examples" / "incident"


def task() -> str:
    return (folder() / "task.txt").read_text()


def prepare(workdir: Path) -> None:
    """A copy for the agents to work in; what an installation protects may be written in the copy."""
    shutil.copytree(folder() / "workdir", workdir, dirs_exist_ok=True, copy_function=shutil.copyfile)


def lines(path: Path, beginning: str) -> int:
    try:
        return sum(line.startswith(beginning) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return 0


def in_the_act(workdir: Path) -> bool:
    """The check has begun and has not ended."""
    return lines(workdir / CHECKS, BEGINS) > lines(workdir / CHECKS, ENDS)


def changed_lines(workdir: Path) -> list[tuple[str, str]]:
    """Of the settings that were wrong: each line that is another now, as it was and as it is."""
    before = (folder() / "workdir" / CONFIG).read_text().splitlines()
    now = (workdir / CONFIG).read_text().splitlines()
    if len(before) != len(now):
        return [(f"{len(before)} lines", f"{len(now)} lines")]
    return [pair for pair in zip(before, now, strict=True) if pair[0] != pair[1]]
