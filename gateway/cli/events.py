"""`events`: the journal of a run, now or as it grows; an event as a line for people and as JSON."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more, of_ending
from gateway.cli.follow import Tally, beside, events_of, expiry, say_how_to_return
from gateway.cli.options import Color, Header, Home, Json, Jsonl, Verbose, Width
from gateway.cli.screen import Mode, Pulse, Screen
from gateway.cli.text import clock, elapsed, epoch_ms, rfc3339, row_of, short, tokens
from roundturn.event import TERMINAL
from roundturn.jsontext import dump

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.event import RunEvent
    from roundturn.store import TurnRow

COLUMNS = ("time", "offset", "type", "summary")


async def print_events(scene: Scene, target: str, after: int, types: tuple[str, ...], follow: bool) -> int:
    async with opened(scene, temporal=False) as client:
        turn = await client.find_turn(target)
        printer = Printer(scene.screen, types)
        if not follow:
            async for event in client.events(turn.run, after):
                printer.show(event)
            printer.close(await client.find_turn(turn.id))
            return Code.DONE
        return await _print_live(scene, client, turn.id, after, printer)


class Printer:
    """`types` are beginnings: `tool,approval` keeps `tool.settled`."""

    def __init__(self, screen: Screen, types: tuple[str, ...]) -> None:
        self._screen = screen
        self._types = types
        self._kept: list[RunEvent] = []
        self._has_shown_end = False
        if screen.mode == "text" and screen.header and not screen.terminal:
            screen.fields(COLUMNS)

    def show(self, event: "RunEvent") -> None:
        if self._types and not event.type.startswith(self._types):
            return
        self._has_shown_end = self._has_shown_end or event.type == TERMINAL
        match self._screen.mode:
            case "jsonl":
                self._screen.document(as_json(event))
            case "json":
                self._kept.append(event)
            case "text" if self._screen.terminal:
                self._screen.data(f"{clock(event.ts, fine=True)}  {line_of(event)}")
            case "text":
                self._screen.fields((rfc3339(event.ts), str(event.offset), event.type, summary(event)))

    def close(self, turn: "TurnRow") -> None:
        """With the answer, where a person or a document has room for it; lines are events and nothing else."""
        screen = self._screen
        if screen.mode == "json":
            items = [as_json(event) for event in self._kept]
            screen.document({"items": items, "next": None, "state": turn.state, "text": turn.text})
        elif screen.mode == "text" and screen.terminal and self._has_shown_end:
            print_answer(screen, turn)


def print_answer(screen: Screen, turn: "TurnRow") -> None:
    """What an ended turn said last, if it is an answer; a paragraph of its own between rows for a person."""
    if turn.state in ("failed", "cancelled") or not turn.text:
        return
    apart = screen.terminal and screen.talks_to_person
    for line in ("", turn.text, "") if apart else (turn.text,):
        screen.data(line) if line else screen.talk()


async def _print_live(scene: Scene, client: "Client", run: str, after: int, printer: Printer) -> int:
    """From the first event on, so that the code at the end knows of everything that went before `after`."""
    say_how_to_return(scene, run)
    tally, pulse = Tally(), Pulse(scene.screen)
    async with beside(*([pulse.run()] if scene.screen.progress else [])):
        async for event in events_of(client, run, 0, scene.screen):
            tally.add(event)
            pulse.now(tally.doing())
            if event.offset > after:
                printer.show(event)
    turn = await client.find_turn(run)
    printer.close(turn)
    return of_ending(turn.state, bool(tally.unknown))


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
    return f"{place(data['call'])}  {data['tool']}  {data['status']}{error}{took}"


def _requested(data: dict[str, Any]) -> str:
    return f"{place(data['call'])}  {data['tool']}  {data['shown']}  {data['effect']}"


def _approval(data: dict[str, Any]) -> str:
    return f"{short(data['approval_id'])}  {data['tool']}  until {expiry(data)}  rule {data['rule']}"


SAYINGS: dict[str, Callable[[dict[str, Any]], str]] = {
    "message.accepted": _accepted,
    "turn.started": lambda data: "",
    "step.started": lambda data: f"step {data['step'] + 1}  model {data['model']}",
    "model.replied": _replied,
    "tool.requested": _requested,
    "tool.started": lambda data: f"{place(data['call'])}  {data['tool']}",
    "tool.settled": settled,
    "approval.requested": _approval,
    "approval.decided": lambda data: f"{short(data['approval_id'])}  {data['state']} by {data['actor']}",
    "approval.expired": lambda data: short(data["approval_id"]),
    "approval.cancelled": lambda data: short(data["approval_id"]),
    "turn.stop_requested": lambda data: f"by {data['origin']}",
    "turn.ended": lambda data: f"{data['state']}  {data['reason']}".rstrip(),
}


def register(app: typer.Typer) -> None:
    epilog = more(
        "roundturn events s_7kq2mz9d/1",
        "roundturn events s_7kq2mz9d --follow --types tool,approval",
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
        wanted = tuple(part.strip() for part in types.split(",") if part.strip())
        screen = Screen(mode, color=color, width=width, header=header)
        return perform(lambda scene: print_events(scene, run, after, wanted, follow), screen, home, verbose)
