"""`events`: the journal of a run, now or as it grows; an event as a line for people and as JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more, of_ending
from gateway.cli.follow import beside, events_of, say_how_to_return, show_progress
from gateway.cli.options import Color, Header, Home, Json, Jsonl, Verbose, Width
from gateway.cli.rows import denied_by, expiry
from gateway.cli.screen import Mode, Screen
from gateway.cli.text import clock, elapsed, epoch_ms, rfc3339, row_of, short, tokens
from gateway.cli.tree import Branch, Tree
from roundturn.errors import UsageError
from roundturn.event import RUN_ENDED
from roundturn.jsontext import dump

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.event import RunEvent
    from roundturn.store import TurnRow

COLUMNS = ("time", "offset", "type", "summary")
TREE_COLUMNS = ("time", "agent", "offset", "type", "summary")


@dataclass(frozen=True)
class Wanted:
    """`types` are beginnings: `tool,approval` keeps `tool.settled`."""

    target: str
    after: int
    types: tuple[str, ...]
    follow: bool
    tree: bool


async def print_events(scene: Scene, wanted: Wanted) -> int:
    if wanted.tree and wanted.after:
        raise UsageError(
            "--after counts the events of one run, --tree shows several", "leave one of them out"
        )
    async with opened(scene, temporal=False) as client:
        turn = await client.find_turn(wanted.target)
        tree = Tree(turn.run, (await client.find_session(turn.session)).agent)
        printer = Printer(scene.screen, wanted, tree)
        if wanted.follow:
            return await _print_live(scene, client, tree, printer)
        found = client.tree_events(turn.run) if wanted.tree else client.events(turn.run)
        async for event in found:
            printer.show(event, tree.add(event))
        printer.close(await client.turns_of_run(turn.run))
        return Code.DONE


class Printer:
    """One event a line; with `--tree` each line names its agent."""

    def __init__(self, screen: Screen, wanted: Wanted, tree: Tree) -> None:
        self._screen = screen
        self._wanted = wanted
        self._tree = tree
        self._kept: list[dict[str, Any]] = []
        self._has_shown_end = False
        if screen.mode == "text" and screen.header and not screen.terminal:
            screen.fields(TREE_COLUMNS if wanted.tree else COLUMNS)

    def show(self, event: "RunEvent", branch: Branch | None) -> None:
        """After the tree has heard of it. Events of subagents are shown in a tree only."""
        is_own = branch is self._tree.root
        if (
            branch is None
            or not (is_own or self._wanted.tree)
            or (is_own and event.offset <= self._wanted.after)
        ):
            return
        if self._wanted.types and not event.type.startswith(self._wanted.types):
            return
        self._has_shown_end = self._has_shown_end or (is_own and event.type == RUN_ENDED)
        named = {"agent": branch.name} if self._wanted.tree else {}
        match self._screen.mode:
            case "jsonl":
                self._screen.document(as_json(event) | named)
            case "json":
                self._kept.append(as_json(event) | named)
            case "text" if self._screen.terminal:
                agent = f"{branch.name:<16}  " if named else ""
                self._screen.data(f"{clock(event.ts, fine=True)}  {agent}{line_of(event)}")
            case "text":
                line = (str(event.offset), event.type, summary(event))
                self._screen.fields((rfc3339(event.ts), *named.values(), *line))

    def close(self, turns: "list[TurnRow]") -> None:
        """With the answer, where a person or a document has room for it; lines are events and nothing else."""
        screen, last = self._screen, turns[-1]
        if screen.mode == "json":
            state = self._tree.root.tally.state
            screen.document({"items": self._kept, "next": None, "state": state, "text": last.text})
        elif screen.mode == "text" and screen.terminal and self._has_shown_end:
            print_answer(screen, last)


def print_answer(screen: Screen, turn: "TurnRow") -> None:
    """What an ended turn said last, if it is an answer; a paragraph of its own between rows for a person."""
    if turn.state in ("failed", "cancelled") or not turn.text:
        return
    apart = screen.terminal and screen.talks_to_person
    for line in ("", turn.text, "") if apart else (turn.text,):
        screen.data(line) if line else screen.talk()


async def _print_live(scene: Scene, client: "Client", tree: Tree, printer: Printer) -> int:
    """From the first event on and with all subagents, so that the code at the end knows of everything."""
    from gateway.journals import Journals

    say_how_to_return(scene, tree.root.run)
    async with beside(*([show_progress(scene, tree)] if scene.screen.progress else [])):
        async for event in events_of(client, Journals(tree.root.run), scene.screen):
            printer.show(event, tree.add(event))
    printer.close(await client.turns_of_run(tree.root.run))
    return of_ending(tree.root.tally.state, bool(tree.unknown))


def as_json(event: "RunEvent") -> dict[str, Any]:
    return {
        "run": event.run,
        "offset": event.offset,
        "type": event.type,
        "ts": epoch_ms(event.ts),
        "data": event.data,
    }


def line_of(event: "RunEvent") -> str:
    return f"{event.offset:>4}  {event.type:<19}  {summary(event)}".rstrip()


def summary(event: "RunEvent") -> str:
    """One line; what is new to this program is shown as it is."""
    say = SAYINGS.get(event.type)
    try:
        line = say(event.data) if say else dump(event.data)
    except (KeyError, TypeError, ValueError):  # an event of another version
        line = dump(event.data)
    return row_of(line)


def place(call: str) -> str:
    """`2.0`: step and index of a call inside its run; steps count from 1 for people."""
    step, index = call.rsplit(".", 2)[1:]
    return f"{int(step) + 1}.{index}"


def _accepted(data: dict[str, Any]) -> str:
    ahead = f"behind {data['position']} · " if data["position"] else ""
    return f'{ahead}"{data["text"]}"'


def _replied(data: dict[str, Any]) -> str:
    usage = data["usage"]
    used = f"{tokens(usage['input_tokens'])} in {tokens(usage['output_tokens'])} out"
    return f"{data['finish']}  {data['calls']} tool calls  {used}"


def settled(data: dict[str, Any]) -> str:
    took = f"  {elapsed(data['elapsed_ms'])}" if "elapsed_ms" in data else ""
    error = f"  {data['error_type']}" if data.get("error_type") else ""
    ended = denied_by(data) or f"{data['status']}{error}"
    return f"{place(data['call'])}  {data['tool']}  {ended}{took}"


def _requested(data: dict[str, Any]) -> str:
    return f"{place(data['call'])}  {data['tool']}  {data['shown']}  {data['effect']}"


def _approval(data: dict[str, Any]) -> str:
    return f"{short(data['approval_id'])}  {data['tool']}  until {expiry(data)}  rule {data['rule']}"


def _delivered(runs: list[str]) -> str:
    return f"with the results of {', '.join(map(short, runs))}" if runs else ""


SAYINGS: dict[str, Callable[[dict[str, Any]], str]] = {
    "message.accepted": _accepted,
    "turn.started": lambda data: _delivered(data.get("delivers") or []),
    "step.started": lambda data: f"step {data['step'] + 1}  model {data['model']}",
    "model.replied": _replied,
    "model.limited": lambda data: f"the endpoint asked to wait until {data['until']}",
    "tool.requested": _requested,
    "tool.started": lambda data: f"{place(data['call'])}  {data['tool']}",
    "tool.settled": settled,
    "approval.requested": _approval,
    "approval.decided": lambda data: f"{short(data['approval_id'])}  {data['state']} by {data['actor']}",
    "approval.expired": lambda data: short(data["approval_id"]),
    "approval.cancelled": lambda data: short(data["approval_id"]),
    "turn.stop_requested": lambda data: f"by {data['origin']}",
    "run_mode.changed": lambda data: f"{data['from']} → {data['to']} by {data['actor']}",
    "turn.ended": lambda data: f"{data['state']}  {data['reason']}".rstrip(),
    "subagent.spawned": lambda data: f"{data['agent']}  {short(data['run'])}  {data['title']}".rstrip(),
    "subagent.awaited": lambda data: f"{place(data['call'])}  {short(data['run'])}",
    "subagent.ended": lambda data: (
        f"{data['agent']}  {short(data['run'])}  {data['state']}  {data['reason']}".rstrip()
    ),
    "run.ended": lambda data: f"{data['state']}  {data['reason']}".rstrip(),
}


def register(app: typer.Typer) -> None:
    epilog = more(
        "roundturn events s_7kq2mz9d/1",
        "roundturn events s_7kq2mz9d --follow --types tool,approval",
        "roundturn events s_7kq2mz9d/1 --tree",
        "roundturn events s_7kq2mz9d/1 --jsonl --after 412 | jq .type",
        codes=(Code.WAITS, Code.INCOMPLETE, Code.CANCELLED, Code.UNKNOWN_OUTCOME),
    )

    @app.command(epilog=epilog)
    def events(
        run: Annotated[str, typer.Argument(metavar="RUN", help="s_…/N, or s_… for its latest run.")],
        follow: Annotated[
            bool, typer.Option("--follow", "-f", help="Until the run ends; its code is ours.")
        ] = False,
        after: Annotated[
            int, typer.Option("--after", min=0, metavar="N", help="Only events behind this offset.")
        ] = 0,
        tree: Annotated[
            bool, typer.Option("--tree", help="With those of its subagents; each line names its agent.")
        ] = False,
        types: Annotated[str, typer.Option("--types", metavar="A,B", help="Only types that begin so.")] = "",
        json: Json = False,
        jsonl: Jsonl = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Print what a run has done, one event a line."""
        mode: Mode = "jsonl" if jsonl else "json" if json else "text"
        kinds = tuple(part.strip() for part in types.split(",") if part.strip())
        wanted = Wanted(run, after, kinds, follow, tree)
        screen = Screen(mode, color=color, width=width, header=header)
        return perform(lambda scene: print_events(scene, wanted), screen, home, verbose)
