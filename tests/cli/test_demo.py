"""The demo is started like a person starts it; its proofs are checked here once more, from its files."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.dev import incident, proofs
from gateway.dev.incident import CHECKS, CONFIG, REPORT, RIGHT, WRONG
from gateway.dev.person import Person
from gateway.dev.proofs import Evidence, Proof
from gateway.dev.timeline import Kill, timeline
from roundturn.agents import load_agents
from roundturn.models.scripted.scenario import read_scenarios
from roundturn.settings import Settings
from tests.cli.made_up import LOGS, PARENT, asking, at, grown
from tests.cli.test_dev import clean_environment
from tests.cli.test_supervisor import alive, until
from tests.requirements import requirement
from tests.system import ROOT

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.store import Store

LIMIT_S = 240
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


@requirement("Q-01", "P41", "A-38", "B-04")
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
    assert "all 12 proofs hold: the worker was killed twice and Temporal once" in said
    assert "log_analyst      ✓ read_file  logs/payments.log" in said, "each row names its agent"
    assert "results in one delivery" in said
    assert re.search(r"cost +unpriced", said)
    (workdir,) = (tmp_path / "home" / "work").iterdir()
    assert incident.changed_lines(workdir) == [(WRONG, RIGHT)]
    assert (workdir / CHECKS).read_text() == f"check begins: {RIGHT.replace(' ', '')}\n"
    assert f"{RIGHT}\n" in (workdir / REPORT).read_text()


@requirement("A-38")
async def test_its_timeline_is_a_tree_with_the_kills_at_their_place(tmp_path: Path) -> None:
    story = asking()
    kills = [Kill(at(4.2), "temporal", 77), Kill(at(9.5), "worker", 78)]
    lines = [line[14:] for line in timeline(grown(story), story.events, kills)]
    assert lines == [
        "orchestrator",
        "│ turn 1",
        "│ step 1  2 calls",
        "│   + log_analyst  what the logs say",
        "│   │ turn 1",
        "│   │ step 1  1 call",
        "│   │ ✗ SIGKILL temporal, pid 77",
        "│   │   ✓ read_file logs/checkout.log  41 ms",
        "│   │ step 2  answers",
        "│   └ completed · 2 steps · 2.2k tokens · 3.7 s",
        "│   + config_reviewer  what the settings say",
        "│   │ turn 1",
        "│   │ step 1  answers",
        "│   └ completed · 1 steps · 1.1k tokens · 1.7 s",
        "│ step 2  answers",
        "│ turn 2 with the results of log_analyst, config_reviewer",
        "│ step 3  1 call",
        "│   ▲ ap_7kq2mz9d asks a person, until 10 Mar 10:30",
        "│ ✗ SIGKILL worker, pid 78",
        "└ running · 3 steps · 3.3k tokens",
    ]


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


class Decides:
    """A client that only hears answers."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, ...]] = []

    async def decide(self, *answer: str) -> None:
        self.decided.append(answer)


def person(client: Decides, said: list[str], signal: list[str]) -> Person:
    row: Any = SimpleNamespace(id="ap_x", workflow_id="turn/s_x/1")
    made = Person(cast("Client", client), Settings(), row, said.append)
    made._signal = signal
    return made


async def test_only_an_empty_line_after_the_question_says_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = pty.openpty()
    said: list[str] = []
    sent = tmp_path / "sent"
    with os.fdopen(near) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(far, b"\n")  # impatience, before anything was asked
        asked = asyncio.create_task(person(Decides(), said, ["touch", str(sent)]).asked())
        await asyncio.sleep(0.3)
        assert not asked.done()
        os.write(far, b"yes?\n")
        await until(lambda: said == ["Enter approves, d and Enter denies"], 5)
        assert not sent.exists()
        os.write(far, b"\n")
        await asked
    os.close(far)
    assert sent.exists()


async def test_d_denies_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    said: list[str] = []
    client = Decides()
    with os.fdopen(near) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        asked = asyncio.create_task(person(client, said, ["false"]).asked())
        await asyncio.sleep(0.1)
        os.write(far, b"d\n")
        await until(lambda: bool(said), 5)
        os.write(far, b"wrong day\n")
        await asked
    os.close(far)
    assert said == ["why not? (one line)"]
    assert client.decided == [("ap_x", "deny", "demo", "wrong day")]


@pytest.mark.parametrize(
    ("text", "begun"),
    [("", False), ("check begins: 8\n", True), ("check begins: 8\ncheck ends: paid\n", False)],
)
def test_the_act_is_between_its_first_and_its_last_line(tmp_path: Path, text: str, begun: bool) -> None:
    (tmp_path / CHECKS).write_text(text)
    assert incident.in_the_act(tmp_path) is begun


def spoiled(proofs: list[Proof]) -> list[str]:
    return [proof.text for proof in proofs if not proof.holds]


async def test_what_was_done_twice_would_be_seen(tmp_path: Path) -> None:
    incident.prepare(tmp_path)
    (tmp_path / CHECKS).write_text("check begins: 8\ncheck begins: 8\n")
    story = asking()
    story.tell(PARENT, 10, "turn.started", turn="s_parent/3", delivers=[LOGS])
    story.end(LOGS, 10)
    evidence = Evidence(cast("Store", None), tmp_path, grown(story), story.events, ["worker", "temporal"])
    assert not proofs.kills(evidence).holds
    found = "\n".join(spoiled([*proofs.calls(evidence), *proofs.runs(evidence)]))
    assert "each result was delivered" in found
    assert "runs, each has ended" in found
    assert "turns, each has exactly one end" in found
    assert "each has finished" not in found
    store: Any = SimpleNamespace(
        approvals=SimpleNamespace(read=_nothing), ledger=SimpleNamespace(read=_nothing)
    )
    effects = spoiled(await proofs.effects(replace(evidence, store=store)))
    assert f"{CHECKS}: the line at the start of the check is there twice" in effects
    assert any(CONFIG in text for text in effects)


async def _nothing(_: str) -> None:
    return None


def test_a_clone_has_the_example_and_an_installation_its_copy() -> None:
    assert incident.folder() == ROOT / "examples" / "incident"
    read_scenarios((incident.folder() / "scenario.json").read_bytes(), "scenario.json")
    agents = load_agents(incident.folder() / "agents")
    assert agents["orchestrator"].delegates == ("log_analyst", "config_reviewer")
    assert agents["log_analyst"].tools == agents["config_reviewer"].tools == ("read_file",)
