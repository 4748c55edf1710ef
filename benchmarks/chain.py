"""The chain's own time: a call through all layers on a real store, beside the same call with the audit layer alone.

The floor is audit around the tool: of a quick `pure` call it alone writes, one transaction that settles the call and adds
its audit row. What is above it is what the other nine layers cost; a disk's flush may hide it, and so each layer is also
timed by itself, without those inside it.
"""

import statistics
import tempfile
import time
import uuid
from pathlib import Path

from benchmarks import task
from roundturn import ids, middleware
from roundturn import settings as settings_module
from roundturn.agent import parse_definition
from roundturn.call import CallContext, Middleware, Next, SessionRef, ToolExecutionResult
from roundturn.face import freeze
from roundturn.jsontext import dump
from roundturn.ledger import PlannedCall
from roundturn.message import AskedCall, Reply
from roundturn.middleware.audit import Audit
from roundturn.registry import ToolRegistry
from roundturn.sandboxes import choose
from roundturn.settings import Settings
from roundturn.store import Store, Taken
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade
from worker.build import Additions, build_registry, install_chain, utc_now

CALLS = 400  # of each kind, one after the other
AGENT = parse_definition(task.DEFINITION, "bench.md")
ARGUMENTS = {"i": 1, "data": "x" * task.RESULT_CHARS}


class Timed(ToolRegistry):
    """A registry that keeps how long each layer took, without those inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.spent_s: list[list[float]] = []

    def use(self, middleware: Middleware) -> None:
        spent: list[float] = []
        self.spent_s.append(spent)

        async def timed(ctx: CallContext, next: Next) -> ToolExecutionResult:
            inside = 0.0

            async def on(ctx: CallContext) -> ToolExecutionResult:
                nonlocal inside
                began = time.perf_counter()
                result = await next(ctx)
                inside = time.perf_counter() - began
                return result

            began = time.perf_counter()
            result = await middleware(ctx, on)
            spent.append(time.perf_counter() - began - inside)
            return result

        super().use(timed)


async def chain_rows() -> list[tuple[str, str]]:
    """What was measured, and its figures."""
    with tempfile.TemporaryDirectory(prefix="roundturn-chain-") as name:
        home = Path(name)
        settings = settings_module.load(home=home, model=task.MODEL, policy={"allow": ["*"]})
        database = Database(settings.store_url, busy_s=10)
        await upgrade(database)
        await database.close()
        async with open_store(settings.store_url, home / "blobs", busy_s=10) as store:
            return _rows(*await _measured(settings, store))


async def _measured(settings: Settings, store: Store) -> tuple[list[float], list[float], dict[str, float]]:
    """Seconds of each call through the chain and of each on the floor; seconds of each layer, the median."""
    sandbox, _ = choose("none", settings.home)
    whole = build_registry(settings, store, {}, sandbox, Additions(tools=[task.Look()]))
    timed, floor = Timed(), ToolRegistry()
    for registry in (timed, floor):
        registry.register(task.Look())
    install_chain(timed, settings, store)
    floor.use(Audit(store.ledger, utc_now))
    contexts = iter(await _contexts(whole, settings, store, 3 * CALLS))
    took: dict[ToolRegistry, list[float]] = {whole: [], timed: [], floor: []}
    for number in range(CALLS):
        order = list(took)[number % 3 :] + list(took)[: number % 3]
        for registry in order:
            ctx = next(contexts)
            began = time.perf_counter()
            result = await registry.execute(ctx)
            took[registry].append(time.perf_counter() - began)
            assert result.status == "completed" and not result.result.is_error, result
    spent = map(statistics.median, timed.spent_s)
    layers = dict(zip(middleware.ORDER, spent, strict=True))
    return took[whole], took[floor], layers


async def _contexts(
    registry: ToolRegistry, settings: Settings, store: Store, count: int
) -> list[CallContext]:
    """Of calls that a turn's first reply asked for, each with its row in the ledger; as `activities.tools` makes them."""
    session = await store.sessions.open(AGENT.name, str(settings.home))
    await store.inbox.accept(session.id, "hello")
    taken = await store.inbox.take(session.id)
    assert isinstance(taken, Taken)
    asked = AskedCall(provider_id="call", name=task.Look.name, arguments=dump(ARGUMENTS))
    plan = PlannedCall(
        asked, asked.name, asked.arguments, task.Look.effect, task.Look.limit_s, brief=True, shown=""
    )
    planned = [plan] * count
    reply = Reply(text="", calls=(asked,) * count, finish="calls")
    await store.transcript.store_reply(taken.turn, 0, reply, planned, utc_now())
    snapshot = freeze(AGENT, registry, settings, {AGENT.name: AGENT})
    rules = snapshot.rules(session.entries, "build", session.action_dir)
    return [
        CallContext(
            tool_call_id=ids.call_id(taken.turn, 0, index),
            tool_name=asked.name,
            arguments=ARGUMENTS,
            session=SessionRef(session.id, taken.turn, taken.turn, AGENT.name),
            workdir=Path(session.action_dir),
            visible_tool_names=snapshot.visible,
            unlisted=snapshot.unlisted,
            spec=registry.spec(asked.name),
            rules=rules.reading(False),  # a context of its own for each call, as in the worker
            attempt=uuid.uuid4().hex,
        )
        for index in range(count)
    ]


def _rows(whole: list[float], floor: list[float], layers: dict[str, float]) -> list[tuple[str, str]]:
    def ratio(calls: slice) -> float:
        return statistics.median(whole[calls]) / statistics.median(floor[calls])

    parts = [ratio(slice(first, None, 10)) for first in range(10)]
    ours, theirs = statistics.median(whole), statistics.median(floor)
    return [
        (
            "a quick `pure` call through the chain / with audit alone",
            f"{ratio(slice(None)):.2f} ({min(parts):.2f} to {max(parts):.2f})",
        ),
        ("the same, medians", f"{_us(ours)} and {_us(theirs)}"),
        ("the other nine layers' own time, summed", _us(sum(layers.values()) - layers["audit"])),
        ("of each", ", ".join(f"{name} {_us(spent)}" for name, spent in layers.items())),
    ]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"
