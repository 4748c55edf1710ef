"""`roundturn demo`: an incident for three agents on a fresh home; what is killed on the way, and what that did not break."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from gateway.client import open_client
from gateway.color import ColorChoice
from gateway.dev import incident, ports, processes
from gateway.dev.person import program
from gateway.dev.play import Play
from gateway.dev.processes import Ports
from gateway.dev.proofs import Proof, prove
from gateway.dev.serve import KILLED, Stack, home_option, locked
from gateway.dev.supervisor import supervised
from gateway.dev.talk import BOLD, GREEN, RED, Talk
from gateway.dev.timeline import spent, timeline
from roundturn.errors import RoundturnError
from roundturn.settings import DEV_FILE, Settings

LIMIT_S = 180  # of a scripted run without a person; it takes about 35 s
PATIENCE_S = 3_600  # of one with a person or a real model


async def run_demo(
    home: Path | None, *, interactive: bool, color: ColorChoice = "auto", verbose: bool
) -> int:
    """0 when all that is claimed was counted and holds, else 1; 130 when it was left. Raises `Unavailable`.

    INTERACTIVE=1 waits for a person's decisions; OPENAI_API_KEY with MODEL=name takes a real model.
    """
    interactive = interactive or os.environ.get("INTERACTIVE") == "1"
    home = (home or Path(tempfile.mkdtemp(prefix="roundturn-demo-"))).expanduser().absolute()
    with locked(home):
        settings, scripted = _settings(home)
        temporal = ports.choose(processes.UI_DISTANCE)
        chosen = Ports(temporal, temporal + processes.UI_DISTANCE, ports.choose() if scripted else None)
        talk = Talk(sys.stdout, "demo", color)
        stack = Stack(
            processes.on_ports(settings, chosen),
            chosen,
            talk,
            incident.folder() / "scenario.json",
            "no OPENAI_API_KEY with MODEL",
            home,
        )
        limit_s = LIMIT_S if scripted and not interactive else PATIENCE_S
        try:
            ended = await supervised(stack.supervisor, _demo(stack, interactive, verbose, limit_s))
        finally:
            (home / DEV_FILE).unlink(missing_ok=True)
        await stack.ended()
    code = KILLED if ended.why in ("asked", "killed") else ended.code
    _farewell(talk, home, code, ended.told)
    return code


def _settings(home: Path) -> tuple[Settings, bool]:
    """No other setting of this machine has a say: the demo is the same everywhere. And: is the model scripted?"""
    given = {
        name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()
    }
    given |= {"home": home, "allow_unverified_verdicts": True, "agents_dir": incident.folder() / "agents"}
    given["privileged_tools"] = incident.PRIVILEGED
    key, model = os.environ.get("OPENAI_API_KEY"), os.environ.get("MODEL")
    if not (key and model):
        return Settings(**(given | {"model": processes.SCRIPTED_MODEL})), True
    given |= {"model": model, "model_api_key": SecretStr(key)}
    given["model_base_url"] = os.environ.get("OPENAI_BASE_URL", "")
    return Settings(**given), False


async def _demo(stack: Stack, interactive: bool, verbose: bool, limit_s: float) -> int:
    talk, began = stack.talk, time.monotonic()
    try:
        async with asyncio.timeout(limit_s), _playing(stack, interactive, verbose) as play:
            await play.job()
            proofs = await prove(play.evidence())
    except RoundturnError as fault:
        talk.line(f"\nthe demo failed: {fault.detail}\n{fault.hint}")
        return 1
    except TimeoutError:
        talk.line(f"\nthe demo failed: it did not end within {limit_s:.0f} s")
        return 1
    play.step("What the journals have: a tree of agents")
    for line in timeline(play.tree, play.events, play.kills):
        play.say(line[: play.room()])
    talk.line()
    for line in spent(play.tree):
        play.explain(line)
    play.step("What was proved, by counting")
    return _verdict(talk, proofs, play.denials, time.monotonic() - began)


def _verdict(talk: Talk, proofs: list[Proof], denials: int, took_s: float) -> int:
    for proof in proofs:
        mark = talk.paint("✓", GREEN) if proof.holds else talk.paint("✗ NOT TRUE:", RED)
        talk.paragraph(proof.text, f"   {mark} ", "     ")
    failed = sum(not proof.holds for proof in proofs)
    talk.line()
    if failed and denials:
        talk.line(
            f"you denied {denials} of the calls: the proofs that count what they would have done do not hold"
        )
        return 0
    talk.paragraph(
        f"{failed} of {len(proofs)} proofs failed"
        if failed
        else f"all {len(proofs)} proofs hold: the worker was killed twice and Temporal once, nothing was lost "
        "and no side effect was repeated",
        "",
        "",
    )
    talk.line(f"{took_s:.1f} s")
    return 1 if failed else 0


@asynccontextmanager
async def _playing(stack: Stack, interactive: bool, verbose: bool) -> AsyncIterator[Play]:
    talk = stack.talk
    talk.line(talk.paint("roundturn demo · an incident, three agents, and three kills on the way", BOLD))
    if stack.ports.model is not None:
        talk.line("The model is scripted: its answers are canned. All the rest is real: Temporal, the store,")
        talk.line("the worker, the agents' runs, the tools, the files, the signals and the kills.")
    play = Play(stack, interactive, verbose)
    play.step("Everything starts")
    await stack.start()
    async with open_client(stack.settings) as client:
        play.client = client
        yield play


def _farewell(talk: Talk, home: Path, code: int, told: str) -> None:
    if told:
        talk.line(told)
    if code:
        talk.line(f"the logs are in {home / 'logs'}")
        return
    talk.line(f"all processes have ended; what they wrote is in {home}")
    talk.line()
    name = program()
    talk.line(f"next    {name} sessions{home_option(home)}      what is stored of this")
    talk.line(f"        {name} dev                            the same for your own work, until Ctrl-C")
    talk.line(f'        {name} run "hello"                    in another terminal')
