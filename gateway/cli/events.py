"""`events`: the journal of a run, now or as it grows."""

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.exits import Code, of_ending
from gateway.cli.options import Color, Header, Home, Json, Jsonl, Verbose, Width, more
from gateway.cli.screen import Mode, Pulse, Screen
from gateway.cli.stage import Scene, full_target, opened, perform
from gateway.cli.words import clock, rfc3339

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.event import RunEvent

COLUMNS = ("time", "offset", "type", "summary")
PAGE = 500


async def print_events(scene: Scene, target: str, after: int, types: tuple[str, ...], follow: bool) -> int:
    async with opened(scene, temporal=False) as client:
        turn = await client.find_turn(await full_target(client, target))
        printer = Printer(scene.screen, types)
        if not follow:
            await _print_stored(client, turn.run, after, printer)
            printer.close()
            return Code.DONE
        return await _print_live(scene, client, turn.id, after, printer)


class Printer:
    """`types` are beginnings: `tool,approval` keeps `tool.settled`."""

    def __init__(self, screen: Screen, types: tuple[str, ...]) -> None:
        self._screen = screen
        self._types = types
        self._kept: list[RunEvent] = []
        if screen.mode == "text" and screen.header and not screen.terminal:
            screen.fields(COLUMNS)

    def show(self, event: "RunEvent") -> None:
        from gateway.cli.run import as_json
        from gateway.cli.wording import summary

        if self._types and not event.type.startswith(self._types):
            return
        match self._screen.mode:
            case "jsonl":
                self._screen.document(as_json(event))
            case "json":
                self._kept.append(event)
            case "text" if self._screen.terminal:
                line = f"{clock(event.ts, fine=True)}  {event.offset:>4}  {event.type:<19}  {summary(event)}"
                self._screen.data(line.rstrip())
            case "text":
                self._screen.fields((rfc3339(event.ts), str(event.offset), event.type, summary(event)))

    def close(self) -> None:
        from gateway.cli.run import as_json

        if self._screen.mode == "json":
            self._screen.items([as_json(event) for event in self._kept])


async def _print_stored(client: "Client", run: str, after: int, printer: Printer) -> None:
    while page := await client.store.journal.read(run, after, PAGE):
        for event in page:
            printer.show(event)
        after = page[-1].offset


async def _print_live(scene: Scene, client: "Client", run: str, after: int, printer: Printer) -> int:
    """From the first event on, so that the code at the end knows of everything that went before `after`."""
    from gateway.cli.follow import beside, events_of, say_how_to_return
    from gateway.cli.tally import Tally

    say_how_to_return(scene, run)
    tally, pulse = Tally(), Pulse(scene.screen)
    async with beside(*([pulse.run()] if scene.screen.progress else [])):
        async for event in events_of(client, run, 0, scene.screen):
            tally.add(event)
            pulse.now(tally.doing())
            if event.offset > after:
                printer.show(event)
    printer.close()
    return of_ending((await client.find_turn(run)).state, bool(tally.unknown))


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
