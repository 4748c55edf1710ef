"""`help exit-codes`: the one table, for people and for scripts."""

from typing import Annotated

import typer

from gateway.cli.exits import MEANINGS, USAGE, Code
from gateway.cli.options import Color, Json, more
from gateway.cli.screen import Screen

TOPICS = ("exit-codes",)
NOTES = (
    "",
    "A run's own state decides; 10 is for a run that completed and has a call in it whose outcome is unknown.",
    "A pipe whose reader has left ends a command by SIGPIPE (141 in a shell), without a word.",
)


def explain(screen: Screen, topic: str) -> int:
    import difflib

    if topic not in TOPICS:
        near = difflib.get_close_matches(topic, TOPICS, 1) or TOPICS
        screen.fault(USAGE, f"there is no help on {topic!r}", f"did you mean: roundturn help {near[0]}")
        return Code.USAGE
    if screen.mode == "json":
        screen.items([{"code": code.value, "meaning": meaning} for code, meaning in MEANINGS.items()])
        return Code.DONE
    for code, meaning in MEANINGS.items():
        screen.data(f"{code.value:>4}  {meaning}" if screen.terminal else f"{code.value}\t{meaning}")
    for line in NOTES if screen.terminal else ():
        screen.talk(line)
    return Code.DONE


def register(app: typer.Typer) -> None:
    help_more = more(
        "roundturn help exit-codes", "roundturn help exit-codes --json", "roundturn help exit-codes | grep 6"
    )

    @app.command("help", epilog=help_more)
    def help_(
        topic: Annotated[str, typer.Argument(metavar="TOPIC", help=f"One of: {', '.join(TOPICS)}.")],
        json: Json = False,
        color: Color = "auto",
    ) -> int:
        """Explain a topic that belongs to no single command."""
        return explain(Screen("json" if json else "text", color=color), topic)
