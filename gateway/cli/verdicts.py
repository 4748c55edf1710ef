"""`approvals approve|deny`: what was shown is what is decided, and the person hears what the answer did."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.approvals import Shown, item
from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Actor, Color, Home, Json, Verbose, actor
from gateway.cli.screen import Screen
from gateway.cli.text import clock, elapsed, grouped, revealed, short
from roundturn.errors import Refused, Settled, UsageError

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.approval import ApprovalRow, Verdict, VerdictOutcome

DIGEST = re.compile(r"^[0-9a-f]{12,64}$")
LEAST_PREFIX = (
    4  # of an id that is answered: one more pending request must not change what a short word means
)
PICK_UP = timedelta(seconds=10)
PAST = {"approve": "approved", "deny": "denied"}


async def answer(
    scene: Scene,
    approval: str,
    verdict: "Verdict",
    who: str,
    reason: str | None,
    digest: str | None,
    wait: bool,
) -> int:
    approval = _long_enough(approval.lower())
    given = None if digest is None else _digest(digest)
    if given is None and verdict == "approve" and not scene.screen.can_ask():
        raise UsageError(
            "approving without a terminal needs --digest",
            f"see what it is for: {scene.command(f'approvals show {approval} --json')}",
        )
    if not reason and verdict == "deny" and not scene.screen.can_ask():
        raise UsageError("denying without a terminal needs --reason", "the agent reads it: --reason TEXT")
    async with opened(scene, needed=False) as client:
        row = await client.find_approval(approval)
        if row.state == "pending" and (given is None or not reason):
            consent = await _consent(scene, client, row, verdict, reason, given)
            if consent is None:
                scene.screen.talk("nothing was decided")
                return Code.FAILED
            reason = consent
        outcome = await client.decide(row.id, verdict, who, reason or None, given or row.digest)
        said = _standing(scene, outcome, verdict, who)
        waited_for = wait and outcome.standing == "decided"
        picked_up = await client.picked_up(row.id, PICK_UP) if waited_for else None
        _say(scene, outcome, said, picked_up)
    return Code.DONE


def _long_enough(approval: str) -> str:
    if len(approval.removeprefix("ap_")) < LEAST_PREFIX:
        raise UsageError(
            f"{approval} is too short to answer", f"give {LEAST_PREFIX} characters of the id or more"
        )
    return approval


def _digest(text: str) -> str:
    digest = "".join(text.split()).lower()
    if DIGEST.match(digest) is None:
        raise UsageError("--digest needs 12 hex characters or more", "as in: --digest 4f1c09ab77de")
    return digest


async def _consent(
    scene: Scene,
    client: "Client",
    row: "ApprovalRow",
    verdict: "Verdict",
    reason: str | None,
    digest: str | None,
) -> str | None:
    """The reason to give with the verdict, None when the person thought better of it."""
    asked = verdict == "approve" and digest is None
    if asked or (not reason and verdict == "deny"):
        for line in Shown(await client.approval_with_call(row.id)).lines():
            scene.screen.talk(line)
    if asked:
        yes = (await scene.screen.ask("Approve this call? [y/N] ")).strip().lower() in ("y", "yes")
        return (reason or "") if yes else None
    if verdict == "deny" and not reason:
        return (await scene.screen.ask("Why not? The agent reads it: ")).strip() or None
    return reason or ""


def _standing(scene: Scene, outcome: "VerdictOutcome", verdict: "Verdict", who: str) -> str:
    """What the answer did, in a sentence. Raises `Settled`, `Refused`, `UsageError`."""
    row = outcome.row
    if row is None or outcome.standing == "unknown":
        raise UsageError("there is no such approval", f"see: {scene.command('approvals list')}")
    by, at = revealed(row.actor or "somebody"), clock(row.decided_at) if row.decided_at else "an earlier time"
    match outcome.standing:
        case "decided":
            return f"{PAST[verdict]} · {short(row.id)}"
        case "repeated":
            return f"already {PAST[verdict]} by {by} at {at} · yours is noted"
        case "contradicted":
            did = "denied" if verdict == "approve" else "approved"
            because = f': "{revealed(row.note)}"' if row.note else ""
            yours = "approval" if verdict == "approve" else "refusal"
            raise Settled(f"{by} {did} this at {at}{because}. Your {yours} did not count", _look(scene, row))
        case "late":
            raise Settled(f"expired at {clock(row.expires_at)}; the call was refused", _look(scene, row))
        case "cancelled":
            raise Settled("cancelled: its run was stopped or has ended; nothing is run", _look(scene, row))
        case "changed":
            raise Settled(
                f"what waits here is not what you were shown: its digest is {grouped(row.digest[:12])}; nothing was decided",
                _look(scene, row),
            )
        case _:
            raise Refused(f"{who} may not answer this request", _look(scene, row))


def _look(scene: Scene, row: "ApprovalRow") -> str:
    return f"see: {scene.command(f'approvals show {short(row.id)}')}"


def _say(scene: Scene, outcome: "VerdictOutcome", said: str, picked_up: timedelta | None) -> None:
    screen, row = scene.screen, outcome.row
    assert row is not None
    if screen.mode == "json":
        seconds = None if picked_up is None else round(picked_up.total_seconds(), 3)
        extra: dict[str, Any] = {
            "standing": outcome.standing,
            "actor": row.actor,
            "picked_up_after_s": seconds,
        }
        screen.document(item(row) | extra)
        return
    if picked_up is not None:
        said += f" · picked up after {elapsed(picked_up.total_seconds() * 1000)}"
    elif outcome.standing == "decided":
        said += " · not picked up yet; it will be, as soon as a worker looks"
    if screen.terminal:
        screen.data(said)
        return
    screen.fields((row.id, row.state, outcome.standing))
    screen.talk(said)


def register(app: typer.Typer) -> None:
    approve_more = more(
        "roundturn approvals approve ap_7kq2mz9d",
        "roundturn approvals approve ap_7kq2mz9d --digest 4f1c09ab77de --json",
        'roundturn approvals approve 7kq2mz9d --as approver-a --reason "checked the tag"',
        codes=(Code.REFUSED, Code.TOO_LATE),
    )
    deny_more = more(
        'roundturn approvals deny ap_7kq2mz9d --reason "wrong branch"',
        "roundturn approvals deny ap_7kq2mz9d",
        'roundturn approvals deny 7kq2mz9d --reason "not today" --as approver-b --json',
        codes=(Code.REFUSED, Code.TOO_LATE),
    )
    approval_argument = typer.Argument(metavar="ID", help="ap_…, or a beginning that is unique.")
    digest_option = typer.Option(
        "--digest", metavar="HEX", help="What you were shown: 12 characters or more."
    )
    no_wait_option = typer.Option("--no-wait", help="Do not wait until the run goes on.")

    @app.command(epilog=approve_more)
    def approve(
        approval: Annotated[str, approval_argument],
        digest: Annotated[str | None, digest_option] = None,
        reason: Annotated[str | None, typer.Option("--reason", help="A note that is kept.")] = None,
        who: Actor = None,
        no_wait: Annotated[bool, no_wait_option] = False,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Allow one tool call, after showing it or with the digest of what was shown."""
        screen = Screen("json" if json else "text", color=color)
        return perform(
            lambda scene: answer(scene, approval, "approve", actor(who), reason, digest, not no_wait),
            screen, home, verbose,
        )  # fmt: skip

    @app.command(epilog=deny_more)
    def deny(
        approval: Annotated[str, approval_argument],
        reason: Annotated[str | None, typer.Option("--reason", help="Why; the agent reads it.")] = None,
        digest: Annotated[str | None, digest_option] = None,
        who: Actor = None,
        no_wait: Annotated[bool, no_wait_option] = False,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Refuse one tool call, with the reason that the agent will read."""
        screen = Screen("json" if json else "text", color=color)
        return perform(
            lambda scene: answer(scene, approval, "deny", actor(who), reason, digest, not no_wait),
            screen, home, verbose,
        )  # fmt: skip
