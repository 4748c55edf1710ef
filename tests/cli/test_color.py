"""Colour is decided in one place, for commands as for `dev` and `demo`."""

import io

import pytest

from gateway.color import ColorChoice, colored
from gateway.dev.ports import choose
from gateway.dev.talk import GREEN, Talk
from tests.cli.conftest import CommandLine


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "choice", "environment", "expected"),
    [
        (True, "auto", {}, True),
        (False, "auto", {}, False),
        (True, "auto", {"CI": "1"}, False),
        (True, "auto", {"TERM": "dumb"}, False),
        (True, "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (False, "auto", {"FORCE_COLOR": "1"}, True),
        (True, "never", {"FORCE_COLOR": "1"}, False),
        (False, "always", {"NO_COLOR": "1"}, True),
    ],
)
def test_a_stream_is_coloured(
    terminal: bool,
    choice: ColorChoice,
    environment: dict[str, str],
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    stream = Stream(terminal)
    assert colored(stream, choice) is expected
    assert ("\x1b" in Talk(stream, "dev", choice).paint("x", GREEN)) is expected


async def test_dev_paints_when_it_is_told_to(alone: CommandLine) -> None:
    dev = alone.start("dev", "--headless", "--color", "always", "--port", str(choose(1000)))
    await dev.says("ready temporal=", "out")
    dev.interrupt()
    done = await dev.ended()
    assert done.code == 0
    assert "\x1b[32m✓\x1b[0m temporal" in done.err
