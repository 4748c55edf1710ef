"""What is played on a real server so that its histories can be stored: each way that a workflow can go, once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roundturn import ids
from tests.system import System, scenario, step, until

ONCE, ASKED = ("note_once", {"text": "a"}), ("note_keyed", {"text": "b"})
PURE, BRIEF = ("note_pure", {"text": "c"}), ("note_brief", {"text": "d"})
DONE = step(text="done")
REFUSES = [{"kind": "status", "status": 401, "code": "invalid_api_key", "times": 99}]
LIMITS = [{"kind": "status", "status": 429, "headers": {"retry-after": "7200"}}]
FAILS = [{"kind": "status", "status": 500, "times": 99}]


Play = Callable[[System], Awaitable[Sequence[str]]]  # the ids of the workflows whose runs are kept


@dataclass(frozen=True)
class Scene:
    """`names`: what the histories of its workflows are stored as."""

    names: tuple[str, ...]
    play: Play


@dataclass(frozen=True)
class Stage:
    """A system with its server and worker, and what is played on it, all at once.

    `dynamic` is for the server; `agents` are definitions by name, beside those of the product.
    """

    name: str
    scenes: tuple[Scene, ...]
    scenarios: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    dynamic: tuple[str, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


async def ended(s: System, text: str) -> str:
    turn = await s.send(text)
    await s.ended(turn)
    return ids.turn_workflow(turn)


def turn_of(text: str) -> Scene:
    """A turn that needs nobody."""

    async def play(s: System) -> Sequence[str]:
        return [await ended(s, text)]

    return Scene((f"turn-{text}",), play)


def answered(text: str, verdict: str) -> Scene:
    async def play(s: System) -> Sequence[str]:
        turn = await s.send(text)
        (asked,) = await s.pending(turn)
        await waiting(s, turn)
        await s.decide(asked.id, verdict)
        await s.ended(turn)
        return [ids.turn_workflow(turn)]

    return Scene((f"turn-{text}",), play)


async def waiting(s: System, turn: str) -> None:
    """Until the turn itself, not only the row, has the call suspended."""
    handle = s.temporal.get_workflow_handle(ids.turn_workflow(turn))

    async def suspended() -> bool:
        return bool((await handle.query("status"))["waiting_for"])

    await until(suspended, f"{turn} to wait for a person")


async def by_signal(s: System) -> Sequence[str]:
    turn = await s.send("approved-by-signal")
    (asked,) = await s.pending(turn)
    offer = {"approval_id": asked.id, "verdict": "approve", "actor": "ada"}
    await s.temporal.get_workflow_handle(ids.turn_workflow(turn)).signal("verdict", offer)
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def still_waiting(s: System) -> Sequence[str]:
    """Open histories, which are what a deploy meets: a batch half done, and a session with a running turn."""
    session = await s.session()
    turn = await s.send("still-waiting", session)
    await s.pending(turn)
    await waiting(s, turn)
    return ids.turn_workflow(turn), ids.session_workflow(session)


async def stopped_while_waiting(s: System) -> Sequence[str]:
    turn = await s.send("stopped-while-waiting")
    await s.pending(turn)
    await waiting(s, turn)
    await s.client.stop(turn, "ada")
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def stopped_in_a_tool(s: System) -> Sequence[str]:
    turn = await s.send("stopped-in-a-tool")
    await until(lambda: any(turn in line for line in s.effects()), "the tool that waits at its gate")
    await s.client.stop(turn, "ada")
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def limited_turn(s: System, text: str) -> str:
    """A turn whose timer runs because the endpoint asked it to wait for hours."""
    turn = await s.send(text)

    async def limited() -> bool:
        return "model.limited" in await s.types(turn)

    await until(limited, f"the limit of {turn}")
    handle = s.temporal.get_workflow_handle(ids.turn_workflow(turn))

    async def asleep() -> bool:
        return bool((await handle.query("status"))["phase"] == "rate limited")

    await until(asleep, f"{turn} to wait for the endpoint")
    return turn


async def still_limited(s: System) -> Sequence[str]:
    return [ids.turn_workflow(await limited_turn(s, "still-limited"))]


async def stopped_while_limited(s: System) -> Sequence[str]:
    turn = await limited_turn(s, "stopped-while-limited")
    await s.client.stop(turn, "ada")
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def of_several_turns(s: System) -> Sequence[str]:
    session = await s.session()
    turns = [await s.send("plain-answer", session) for _ in range(3)]
    for turn in turns:
        await s.ended(turn)
    workflow = ids.session_workflow(session)
    await s.workflow_closed(workflow)
    return [workflow]


async def of_a_terminated_turn(s: System) -> Sequence[str]:
    session = await s.session()
    turn = await s.send("still-waiting", session)
    await s.pending(turn)
    await waiting(s, turn)
    await s.temporal.get_workflow_handle(ids.turn_workflow(turn)).terminate()
    await s.ended(turn)
    workflow = ids.session_workflow(session)
    await s.workflow_closed(workflow)
    return workflow, ids.turn_workflow(turn)


async def cancelled_from_outside(s: System) -> Sequence[str]:
    turn = await s.send("still-waiting")
    await s.pending(turn)
    await waiting(s, turn)
    await s.temporal.get_workflow_handle(ids.turn_workflow(turn)).cancel()
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def one_reconcile_pass(s: System) -> Sequence[str]:
    query = (
        f"WorkflowType='Reconcile' AND ExecutionStatus='Completed' AND TaskQueue='{s.settings.task_queue}'"
    )

    async def passed() -> str:
        return next(iter([found.id async for found in s.temporal.list_workflows(query)]), "")

    return [await until(passed, "a pass of the reconciler")]


async def continued_at_its_steps(s: System) -> Sequence[str]:
    return [await ended(s, "many-steps")]


async def continued_while_waiting(s: System) -> Sequence[str]:
    turn = await s.send("still-waiting")
    (asked,) = await s.pending(turn)
    await waiting(s, turn)
    handle = s.temporal.get_workflow_handle(ids.turn_workflow(turn))

    async def continued() -> bool:
        await handle.signal("wake")
        started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        return bool(started.continued_execution_run_id)

    await until(continued, "the waiting turn to continue as new")
    await waiting(s, turn)
    await s.decide(asked.id)
    await s.ended(turn)
    return [ids.turn_workflow(turn)]


async def continued_between_turns(s: System) -> Sequence[str]:
    session = await s.session()
    turns = [await s.send("plain-answer", session) for _ in range(5)]
    for turn in turns:
        await s.ended(turn)
    workflow = ids.session_workflow(session)
    await s.workflow_closed(workflow)
    return [workflow]


async def with_subagents(s: System) -> Sequence[str]:
    """Two in the background: the turn ends, their results come back in another one of the same session."""
    session = await s.session()
    turn = await s.send("delegates", session)
    await run_ended(s, turn)
    (first, *_) = await s.client.store.runs.children(turn)
    for each in (session, first.session):
        await s.workflow_closed(ids.session_workflow(each))
    delivered = (await s.client.store.turns.of_run(turn))[-1].id
    return (
        ids.turn_workflow(turn),
        ids.turn_workflow(delivered),
        ids.session_workflow(session),
        ids.session_workflow(first.session),
    )


async def run_ended(s: System, run: str) -> None:
    async def ended_at() -> bool:
        row = await s.client.store.runs.read(run)
        return row is not None and row.ended_at is not None

    await until(ended_at, f"the end of the run {run}")


async def waits_for_a_subagent(s: System) -> Sequence[str]:
    turn = await s.send("waits-for-a-subagent")
    await run_ended(s, turn)
    return [ids.turn_workflow(turn)]


async def still_delegating(s: System) -> Sequence[str]:
    turn = await s.send("still-delegating")
    await until(lambda: any("note_once a" in line for line in s.effects()), "the subagent at its gate")
    await waiting(s, turn)
    return [ids.turn_workflow(turn)]


def spawned(task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "spawn_subagent", {"agent": "helper", "task": task, **more}


AGENTS = {
    "assistant": '+++\nname = "assistant"\ntier = "chat"\nsubagents = ["helper"]\n+++\nDelegate.\n',
    "helper": '+++\nname = "helper"\ndescription = "Looks things up."\n+++\nLook things up.\n',
}
PLAIN = (scenario("plain-answer", DONE), scenario("still-waiting", step(PURE, ONCE, ASKED), DONE))
ASKING = ("approved", "denied", "approved-by-signal", "stopped-while-waiting")
STAGES = (
    Stage(
        "main",
        (
            *(turn_of(text) for text in (
                "plain-answer", "one-pure-call", "one-once-call", "parallel-calls", "brief-calls",
                "max-steps", "refused-by-the-model", "failed-model",
            )),
            answered("approved", "approve"), answered("denied", "deny"), answered("one-of-three-approved", "approve"),
            Scene(("turn-approved-by-signal",), by_signal),
            Scene(("turn-still-waiting", "session-still-running"), still_waiting),
            Scene(("turn-stopped-while-waiting",), stopped_while_waiting),
            Scene(("turn-stopped-in-a-tool",), stopped_in_a_tool),
            Scene(("turn-still-limited",), still_limited),
            Scene(("turn-stopped-while-limited",), stopped_while_limited),
            Scene(("session-of-several-turns",), of_several_turns),
            Scene(("session-of-a-terminated-turn", "turn-terminated"), of_a_terminated_turn),
            Scene(("turn-cancelled-from-outside",), cancelled_from_outside),
            Scene(("reconcile-pass",), one_reconcile_pass),
        ),
        (
            *PLAIN,
            scenario("one-pure-call", step(PURE), DONE),
            scenario("one-once-call", step(ONCE), DONE),
            scenario("parallel-calls", step(ONCE, PURE, BRIEF), step(BRIEF, BRIEF), DONE),
            scenario("brief-calls", step(BRIEF), DONE),
            scenario("max-steps", *[step(BRIEF)] * 4),
            scenario("refused-by-the-model", step(text="never", faults=REFUSES)),
            scenario("failed-model", step(text="never", faults=FAILS)),
            scenario("one-of-three-approved", step(PURE, ASKED, ONCE), DONE),
            scenario("stopped-in-a-tool", step(("note_once", {"text": "a", "gate": "never"}))),
            scenario("stopped-while-limited", step(text="never", faults=LIMITS)),
            scenario("still-limited", step(text="never", faults=LIMITS)),
            *(scenario(text, step(ASKED), DONE) for text in ASKING),
        ),
        {"max_steps": 3, "model_attempts": 2},
    ),
    Stage(
        "expiring",
        (turn_of("expired"),),
        (scenario("expired", step(ASKED), DONE),),
        {"approval_ttl_s": 2},
    ),
    Stage(
        "continuing",
        (
            Scene(("turn-continued-at-its-steps",), continued_at_its_steps),
            Scene(("turn-continued-while-waiting",), continued_while_waiting),
            Scene(("session-continued-between-turns",), continued_between_turns),
        ),
        (*PLAIN, scenario("many-steps", *[step(ONCE)] * 4, DONE)),
        dynamic=("limit.historyCount.suggestContinueAsNew=20",),
    ),
    Stage(
        "delegating",
        (
            Scene(
                (
                    "turn-with-subagents",
                    "turn-of-delivered-results",
                    "session-with-subagents",
                    "session-of-a-subagent",
                ),
                with_subagents,
            ),
            Scene(("turn-waits-for-a-subagent",), waits_for_a_subagent),
            Scene(("turn-still-delegating",), still_delegating),
        ),
        (
            scenario("delegates", step(spawned("look"), spawned("look")), DONE, DONE),
            scenario("waits-for-a-subagent", step(spawned("look", blocking=True)), DONE),
            scenario("still-delegating", step(spawned("stay", blocking=True)), DONE),
            scenario("look", step(PURE), DONE),
            scenario("stay", step(("note_once", {"text": "a", "gate": "never"}))),
        ),
        agents=AGENTS,
    ),
)  # fmt: skip
SETTINGS = {"policy": {"ask": [ASKED[0]], "allow": ["*"]}}


async def perform(stage: Stage, s: System) -> dict[str, str]:
    """The workflow ids by name, when every scene is where it shall be."""
    await s.start_worker()
    played = await asyncio.gather(*(scene.play(s) for scene in stage.scenes))
    return {
        name: workflow
        for scene, workflows in zip(stage.scenes, played, strict=True)
        for name, workflow in zip(scene.names, workflows, strict=True)
    }
