"""`run`: send a message, follow what comes of it, answer with the text and an exit code."""

import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.events import as_json, print_answer
from gateway.cli.exits import Code, more, of_ending
from gateway.cli.follow import SAFE, Following, say_how_to_return
from gateway.cli.options import Color, Home, Json, Jsonl, Quiet, Verbose
from gateway.cli.screen import Mode, Screen
from gateway.cli.text import elapsed, tokens
from gateway.cli.tree import Branch, Tree
from roundturn.errors import UsageError
from roundturn.mode import RunMode

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.event import RunEvent
    from roundturn.store import Accepted, SessionRow, TurnRow

DEFAULT_AGENT = "assistant"
STOP_WAIT_S = 10.0
ALL_APPROVALS = 1000


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    text: str
    agent: str | None
    session: str | None
    workdir: Path | None
    wait: bool
    until_approval: bool
    timeout_s: float | None
    stop_on_interrupt: bool
    run_mode: RunMode | None = None


async def run_and_follow(scene: Scene, wanted: Wanted) -> int:
    from gateway.client import refuse_empty

    refuse_empty(wanted.text)
    scene.farewell = ["Left. Nothing was sent."]
    async with opened(scene) as client:
        opened_session = await _session(scene, client, wanted)
        session = opened_session.id
        in_flight = f"  look: {scene.command(f'events {session}')}"
        scene.farewell = ["Left in the middle of sending; the message may be there or not.", in_flight]
        screen = scene.screen
        follower: Following | None = None

        def show(event: "RunEvent", _: Branch) -> None:
            if screen.mode == "jsonl":
                screen.document(as_json(event))

        def committed(accepted: "Accepted") -> None:
            nonlocal follower
            tree = Tree(accepted.turn, opened_session.agent)
            follower = Following(scene, client, tree, accepted.position, show)
            follower.on_leaving(wanted.stop_on_interrupt and wanted.wait)
            _announce(scene, accepted)  # only now: who reads it and interrupts gets what was asked for

        sent = await client.send(session, wanted.text, heard=committed)
        run = sent.accepted.turn
        assert follower is not None
        if not sent.rung:
            screen.talk(SAFE, "yellow")
        if not wanted.wait:
            return _handed_over(screen, session, run)
        how = await follower.until(wanted.until_approval, wanted.timeout_s)
        scene.on_interrupt = None
        if how == "timeout":
            screen.talk(f"--timeout ran out after {wanted.timeout_s:g} s. The run goes on.", "yellow")
            screen.talk(scene.farewell[-1])
        return await _finish(screen, client, follower.tree, how)


async def _session(scene: Scene, client: "Client", wanted: Wanted) -> "SessionRow":
    """Raises `UsageError`, for an agent that is unknown before anything is opened."""
    if wanted.session is None:
        _look_at(scene, wanted)
        agent, mode = wanted.agent or DEFAULT_AGENT, wanted.run_mode or "build"
        return await client.open_session(agent, wanted.workdir, entry="cli", run_mode=mode)
    if wanted.run_mode is not None:
        raise UsageError(
            "a session has its mode", f"set it: roundturn mode {wanted.session} {wanted.run_mode}"
        )
    if wanted.workdir is not None:
        raise UsageError("a session keeps its directory", "leave out --workdir, or start without --session")
    session = await client.find_session(wanted.session)
    if wanted.agent not in (None, session.agent):
        raise UsageError(f"session {session.id} works with {session.agent}", "leave out --agent")
    return session


def _look_at(scene: Scene, wanted: Wanted) -> None:
    from gateway.known_agents import doubt_about

    if wanted.agent is None:
        return
    doubt = doubt_about(wanted.agent, scene.settings)
    if doubt and scene.screen.progress:
        scene.screen.talk(doubt, "yellow")


def _announce(scene: Scene, accepted: "Accepted") -> None:
    """As soon as the message is committed: whoever leaves from now on can come back to it."""
    session, run = accepted.session, accepted.turn
    say_how_to_return(scene, run)
    if scene.screen.progress:
        scene.screen.talk(f"session {session} · turn {run.rsplit('/', 1)[1]}", "dim")
    if scene.screen.quiet:
        scene.screen.data(session)


def _handed_over(screen: Screen, session: str, run: str) -> int:
    if screen.mode != "text":
        screen.document({"session": session, "turn": run})
    elif not screen.quiet:
        screen.data(session)
    return Code.DONE


async def _finish(screen: Screen, client: "Client", tree: Tree, how: str) -> int:
    turns = await client.turns_of_run(tree.root.run)
    state = tree.root.tally.state
    if state == "cancelled":  # what it delegated ends by itself, a moment later
        await client.quiet(tree.root.run, timedelta(seconds=STOP_WAIT_S))
    if screen.mode != "text":
        document = await _document(client, turns, tree)
        screen.document({"type": "result", **document} if screen.mode == "jsonl" else document)
    elif how == "ended" and not screen.quiet:
        print_answer(screen, turns[-1])
    if how != "ended":
        return Code.TIMEOUT if how == "timeout" else Code.WAITS
    if screen.progress:
        _say_ending(screen, turns, tree)
    elif screen.mode == "text" and tree.root.tally.reason:
        screen.talk(tree.root.tally.reason)
    return of_ending(state, bool(tree.unknown))


async def _document(client: "Client", turns: "list[TurnRow]", tree: Tree) -> dict[str, Any]:
    """`steps` of the run's own turns; `usage`, `cost` and `approvals` of all that it delegated, too."""
    root = tree.root
    approvals = await client.approvals("all", root.run, ALL_APPROVALS)
    return {
        "session": root.session,
        "turn": turns[-1].id,
        "run": root.run,
        "state": root.tally.state,
        "reason": root.tally.reason,
        "text": turns[-1].text,
        "steps": sum(turn.steps for turn in turns),
        "usage": vars(tree.used),
        "cost": {"usd": None, "unpriced_calls": tree.model_calls},
        "approvals": [{"approval_id": row.id, "state": row.state} for row in approvals],
        "subagents": [await _subagent(client, branch) for branch in tree if branch is not root],
    }


async def _subagent(client: "Client", branch: Branch) -> dict[str, Any]:
    state = (await client.run(branch.run)).state  # it may have ended after its parent, whose end was followed
    return {
        "session": branch.session,
        "run": branch.run,
        "agent": branch.agent,
        "title": branch.title,
        "state": "running" if state == "active" else state,
        "usage": vars(branch.tally.used),
    }


def _say_ending(screen: Screen, turns: "list[TurnRow]", tree: Tree) -> None:
    tally, used = tree.root.tally, tree.used
    steps = sum(turn.steps for turn in turns)
    parts = [tally.state, f"{steps} step{'' if steps == 1 else 's'}"]
    if not tree.is_alone:
        many = sum(1 for _ in tree) - 1
        parts.append(f"{many} subagent{'' if many == 1 else 's'}")
    if tally.ended is not None:
        took = elapsed((tally.ended - (tally.started or tally.ended)).total_seconds() * 1000)
        waited = tally.waited.total_seconds() * 1000
        parts.append(f"{took} ({elapsed(waited)} waiting for a person)" if waited else took)
    if used.input_tokens is not None:
        cached = f" ({tokens(used.cached_tokens)} cached)" if used.cached_tokens else ""
        parts.append(f"{tokens(used.input_tokens)} in{cached} {tokens(used.output_tokens)} out")
    screen.talk(" · ".join(parts), "dim")
    for branch, call in tree.unknown:
        told = f"{branch.tally.told(call)} ({call})"
        screen.talk(f"outcome unknown: {told}; look before you repeat it", "red")
    if tally.reason:
        screen.talk(tally.reason, "red" if tally.state == "failed" else "yellow")


def register(app: typer.Typer) -> None:
    epilog = more(
        'roundturn run "Summarise README.md" --workdir .',
        'roundturn run "And now in French" --session s_7kq2mz9d > answer.txt',
        'roundturn run "Ship 2.4.1" --until-approval --json',
        codes=(
            Code.WAITS,
            Code.INCOMPLETE,
            Code.CANCELLED,
            Code.UNKNOWN_OUTCOME,
            Code.TIMEOUT,
            Code.TERMINATED,
        ),
    )

    @app.command(epilog=epilog)
    def run(
        text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent should do; - reads stdin.")],
        agent: Annotated[str | None, typer.Option("--agent", help="Which agent starts the session.")] = None,
        session: Annotated[str | None, typer.Option("--session", help="Go on in this session.")] = None,
        workdir: Annotated[
            Path | None, typer.Option("--workdir", metavar="DIR", help="Where the tools work.")
        ] = None,
        run_mode: Annotated[
            RunMode | None, typer.Option("--mode", help="Of a new session: plan only reads.")
        ] = None,
        no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the session's id and leave.")] = False,
        until_approval: Annotated[
            bool, typer.Option("--until-approval", help="Leave with 3 when a person is asked.")
        ] = False,
        timeout: Annotated[
            float | None,
            typer.Option("--timeout", min=0, metavar="SECONDS", help="Leave after that; the run goes on."),
        ] = None,
        stop_on_interrupt: Annotated[
            bool, typer.Option("--stop-on-interrupt", help="Ctrl-C stops the run.")
        ] = False,
        json: Json = False,
        jsonl: Jsonl = False,
        quiet: Quiet = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Send a message to an agent, follow the run, print the answer."""
        mode: Mode = "jsonl" if jsonl else "json" if json else "text"
        said = sys.stdin.read() if text == "-" else text
        wanted = Wanted(said, agent, session, workdir, not no_wait, until_approval, timeout, stop_on_interrupt, run_mode)  # fmt: skip
        screen = Screen(mode, color=color, quiet=quiet)
        return perform(lambda scene: run_and_follow(scene, wanted), screen, home, verbose)
