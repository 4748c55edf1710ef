"""The demo is started like a person starts it; its proofs are checked here once more, from its files."""

import asyncio
import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.client import Client
from gateway.dev import job
from gateway.dev.demo import Play
from gateway.dev.job import COUNTED, PUBLISHED, REPORT, lines
from gateway.dev.talk import Talk
from tests.cli.test_dev import clean_environment
from tests.cli.test_supervisor import alive, until
from tests.requirements import requirement

LIMIT_S = 120
RUN = """
import asyncio, sys
from pathlib import Path
from gateway.dev.demo import run_demo
sys.exit(asyncio.run(run_demo(Path(sys.argv[1]), interactive=False, verbose=False)))
"""


def start(home: Path, log: Path, **more: str) -> subprocess.Popen[bytes]:
    with log.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(home)], stdout=file, stderr=file, stdin=subprocess.DEVNULL,
            env=clean_environment() | more, cwd=home.parent,
        )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


@requirement("Q-01", "P41")
async def test_the_demo_proves_what_it_claims(tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    process = start(tmp_path / "home", log)
    try:
        code = await asyncio.to_thread(process.wait, LIMIT_S)
    finally:
        end(process)
    said = log.read_text()
    assert code == 0, said
    assert "The model is scripted" in said
    assert "\x1b" not in said
    assert "roundturn approvals approve ap_" in said
    assert "workflow signal --address 127.0.0.1:" in said
    assert "all 8 proofs hold: the worker was killed twice, no side effect was repeated" in said
    (workdir,) = (tmp_path / "home" / "work").iterdir()
    assert lines(workdir / COUNTED, "open orders: 3") == 1
    assert lines(workdir / PUBLISHED, "publish begins") == 1
    assert lines(workdir / PUBLISHED, "publish ends") == 0
    assert "publish begins" in (workdir / REPORT).read_text()


@requirement("P124")
async def test_a_demo_that_is_left_ends_its_processes_and_names_its_logs(tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    process = start(tmp_path / "home", log, INTERACTIVE="1")
    try:
        await until(lambda: "waiting for one of these" in log.read_text(), LIMIT_S)
        found = (tmp_path / "home" / "dev.json").read_text()
        pids = [int(word) for word in found.replace(",", " ").split() if word.isdigit()]
        assert sum(map(alive, pids)) == 4  # and itself
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, LIMIT_S) == 130
        assert not any(alive(pid) for pid in pids)
    finally:
        end(process)
    assert f"the logs are in {tmp_path / 'home' / 'logs'}" in log.read_text()


async def test_only_an_empty_line_after_the_question_says_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = pty.openpty()
    said, sent = io.StringIO(), tmp_path / "sent"
    stack: Any = SimpleNamespace(talk=Talk(said))
    row: Any = SimpleNamespace(id="ap_x")
    with os.fdopen(near) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(far, b"\n")  # impatience, before anything was asked
        asked = asyncio.create_task(Play(stack, True, False)._asked(row, ["touch", str(sent)]))
        await asyncio.sleep(0.3)
        assert not asked.done()
        os.write(far, b"yes?\n")
        await until(lambda: "Enter approves" in said.getvalue(), 5)
        assert not sent.exists()
        os.write(far, b"\n")
        await asked
    os.close(far)
    assert sent.exists()


async def test_d_denies_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    said, decided = io.StringIO(), []
    stack: Any = SimpleNamespace(talk=Talk(said))
    row: Any = SimpleNamespace(id="ap_x")
    play = Play(stack, True, False)

    class Decides:
        async def decide(self, *answer: str) -> None:
            decided.append(answer)

    play.client = cast("Client", Decides())
    with os.fdopen(near) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        asked = asyncio.create_task(play._asked(row, ["false"]))
        await asyncio.sleep(0.1)
        os.write(far, b"d\n")
        await until(lambda: "why not?" in said.getvalue(), 5)
        os.write(far, b"wrong day\n")
        await asked
    os.close(far)
    assert decided == [("ap_x", "deny", "demo", "wrong day")]


@pytest.mark.parametrize(
    ("text", "begun"),
    [("", False), ("publish begins\n", True), ("publish begins\npublish ends\n", False)],
)
def test_the_act_is_between_its_first_and_its_last_line(tmp_path: Path, text: str, begun: bool) -> None:
    (tmp_path / PUBLISHED).write_text(text)
    assert job.in_the_act(tmp_path) is begun


async def test_a_repeated_side_effect_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / COUNTED).write_text("open orders: 3\nopen orders: 3\n")
    proofs = await job.prove(None, tmp_path, [], kills=2)  # type: ignore[arg-type] - no call, no look-up
    assert not proofs[1].holds
    assert "2 times" in proofs[1].text or "twice" in proofs[1].text
