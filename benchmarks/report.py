"""`make bench`: both systems in one run, interleaved, and the table of what a step costs as ratios with their spread."""

import asyncio
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client as Temporal

from benchmarks import floor, processes, task
from benchmarks.chain import CALLS, chain_rows
from benchmarks.decisions import decision_rows
from benchmarks.systems import FloorSystem, History, Roundturn, System
from gateway.client import open_client
from roundturn import settings as settings_module
from roundturn.settings import Settings
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade
from workflows.wire import connect

ROUNDS = 3
LIMIT_S = 900  # on a machine that others use; alone it takes a few minutes
STEPS = 20
CROWD, CROWD_STEPS = 50, 4
LONG = 210
WAITING = 100


@dataclass(frozen=True)
class Cost:
    """Of one batch: wall seconds and seconds of the worker's CPU for so many steps."""

    wall_s: float
    cpu_s: float
    steps: int

    @property
    def wall_ms(self) -> float:
        return self.wall_s / self.steps * 1000

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s / self.steps * 1000

    @property
    def rate(self) -> float:
        return self.steps / self.wall_s


@dataclass
class Run:
    """All systems of one run and what each cost in each round, by kind of work."""

    floor: System
    local: System
    ours: Roundturn
    costs: dict[tuple[str, str], list[Cost]] = field(default_factory=dict)

    async def measure(
        self, kind: str, text: str, steps: int, systems: Sequence[System], crowd: int = 1
    ) -> None:
        for system in systems:
            cpu, began = processes.cpu_s(system.pid), time.perf_counter()
            await asyncio.gather(*(system.turn(text) for _ in range(crowd)))
            wall = time.perf_counter() - began
            spent = Cost(wall, processes.cpu_s(system.pid) - cpu, (steps + 1) * crowd)
            self.costs.setdefault((kind, system.name), []).append(spent)


async def measure_all(run: Run) -> None:
    """Every round does every kind of work on every system, each time beginning with another one."""
    every: list[System] = [run.floor, run.local, run.ours]
    for system in every:
        await system.turn(task.message("look", 3))  # warm
    for number in range(ROUNDS):
        order = every[number % 3 :] + every[: number % 3]
        pair = [system for system in order if system is not run.local]
        await run.measure("answer", task.message("look", 0), 0, pair)
        await run.measure("brief", task.message("look", STEPS), STEPS, order)
        await run.measure("pure", task.message("fetch", STEPS), STEPS, pair)
        await run.measure("once", task.message("act", STEPS), STEPS, pair)
        await run.measure("slow", task.message("job", STEPS), STEPS, pair)
        await run.measure("fan", task.message("look", STEPS // 2, 8), STEPS // 2, order)
        await run.measure("crowd", task.message("look", CROWD_STEPS), CROWD_STEPS, order, CROWD)
        sys.stderr.write(f"round {number + 1} of {ROUNDS}\n")


def ratio(run: Run, kind: str, of: Callable[[Cost], float], base: System | None = None) -> str:
    """Ours to the floor's, round by round: the median, and the lowest and highest of the rounds."""
    ours = [of(cost) for cost in run.costs[kind, run.ours.name]]
    theirs = [of(cost) for cost in run.costs[kind, (base or run.floor).name]]
    ratios = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def pair(run: Run, kind: str, of: Callable[[Cost], float], unit: str) -> str:
    ours, theirs = (
        statistics.median(of(cost) for cost in run.costs[kind, system.name])
        for system in (run.ours, run.floor)
    )
    return f"{ours:.1f} {unit} and {theirs:.1f} {unit}"


def _wall(cost: Cost) -> float:
    return cost.wall_ms


def _cpu(cost: Cost) -> float:
    return cost.cpu_ms


def _rate(cost: Cost) -> float:
    return cost.rate


def cost_rows(run: Run) -> list[tuple[str, str, str, str, str]]:
    """What was measured, ours to the floor, to the floor with a local tool, both in units, the target."""
    rows = [
        ("wall time per step, quick `pure` tool", "brief", _wall, "ms", "at most 0.8"),
        ("wall time per step, `pure` tool as an activity", "pure", _wall, "ms", ""),
        ("wall time per step, quick `once` tool", "once", _wall, "ms", "at most 1.1"),
        ("wall time per step, `once` tool that may be slow", "slow", _wall, "ms", "at most 1.1"),
        ("wall time per step, 8 parallel quick `pure` calls", "fan", _wall, "ms", "at most 0.6"),
        ("worker CPU per step, quick `pure` tool", "brief", _cpu, "ms", "at most 1.0"),
        ("worker CPU per step, quick `once` tool", "once", _cpu, "ms", "at most 1.0"),
        (f"steps a second, {CROWD} turns at once, quick `pure` tool", "crowd", _rate, "/s", "at least 1.2"),
        ("a whole turn without tools", "answer", _wall, "ms", ""),
    ]
    return [
        (
            title,
            ratio(run, kind, of),
            ratio(run, kind, of, run.local) if (kind, run.local.name) in run.costs else "",
            pair(run, kind, of, unit),
            target,
        )
        for title, kind, of, unit, target in rows
    ]


async def history_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """Bytes of history per step, from whole turns: ours, the floor's, the target."""

    async def middle(system: System, tool: str, fanout: int = 1) -> float:
        weighed = await system.history(await system.turn(task.message(tool, 12, fanout)))
        return statistics.mean(weighed.step_bytes[2:-2])

    one_local, one_normal = await middle(run.ours, "look"), await middle(run.ours, "act")
    further = (await middle(run.ours, "act", 8) - one_normal) / 7
    base = await middle(run.floor, "look")
    base_further = (await middle(run.floor, "look", 8) - base) / 7
    return [
        ("history per step, one local call", f"{one_local:.0f} B", "", "at most 1,500 B"),
        ("history per step, one normal call", f"{one_normal:.0f} B", f"{base:.0f} B", "at most 2,000 B"),
        ("history for each further call", f"{further:.0f} B", f"{base_further:.0f} B", "at most 750 B"),
    ]


async def long_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """The same turn at its 10th and at its 200th step."""
    ours, theirs = [await s.history(await s.turn(task.message("look", LONG))) for s in (run.ours, run.floor)]

    def growth(of: Callable[[History, int, int], float]) -> tuple[str, str]:
        early, late = (5, 16), (195, 206)
        return tuple(f"{of(h, *early):.1f}, then {of(h, *late):.1f}" for h in (ours, theirs))  # type: ignore[return-value]

    def wall(history: History, first: int, last: int) -> float:
        return (history.step_began[last] - history.step_began[first]) / (last - first) * 1000

    def weight(history: History, first: int, last: int) -> float:
        return statistics.mean(history.step_bytes[first:last])

    return [
        ("bytes of history at step 10, then at step 200", *growth(weight), "the same"),
        ("ms per step at step 10, then at step 200", *growth(wall), ""),
    ]


async def memory_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """The workers' resident memory, at rest and at its highest while a crowd of turns runs."""
    rested = [processes.memory_mb(system.pid) for system in (run.ours, run.floor)]
    highest = []
    for system in (run.ours, run.floor):
        crowd = asyncio.gather(*(system.turn(task.message("look", CROWD_STEPS)) for _ in range(CROWD)))
        seen = 0.0
        while not crowd.done():
            seen = max(seen, processes.memory_mb(system.pid))
            await asyncio.wait({crowd}, timeout=0.05)
        await crowd
        highest.append(seen)
    rows = (
        ("worker's memory at rest, after all of the above", rested),
        (f"worker's memory, {CROWD} turns at once", highest),
    )
    return [(title, f"{ours:.0f} MB", f"{theirs:.0f} MB", "") for title, (ours, theirs) in rows]


async def approval_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """Turns that all wait for a person, and then all get their yes: until the last one has ended."""
    await asyncio.gather(*(run.ours.ask() for _ in range(WAITING)))
    waiting = await run.ours.waiting(WAITING)
    began = time.perf_counter()
    await asyncio.gather(*(run.ours.approve(approval) for approval in waiting))
    wall = time.perf_counter() - began
    return [
        (f"{WAITING} approvals at once, from the yes to the turn's end", f"{WAITING / wall:.0f} /s", "", "")
    ]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Run]:
    with ExitStack() as stack:
        settings, floor_url, model_url = await _prepared(folder, stack)
        temporal = await connect(settings)
        messages = floor.Messages(floor_url)
        await messages.create()
        python = sys.executable
        theirs = stack.enter_context(
            processes.process(
                [python, "-m", "benchmarks.floor", settings.temporal_address, floor_url, model_url],
                folder / "floor.log",
            )
        )
        ours = stack.enter_context(
            processes.process(
                [python, "-m", "benchmarks.product"], folder / "ours.log", _environment(settings)
            )
        )
        workdir = folder / settings_module.WORK
        workdir.mkdir(exist_ok=True)
        async with open_client(settings) as client:
            plain = await Temporal.connect(settings.temporal_address)
            yield Run(
                FloorSystem(plain, messages, theirs.pid, local=False),
                FloorSystem(plain, messages, theirs.pid, local=True),
                Roundturn(client, temporal, ours.pid, workdir),
            )


async def _prepared(folder: Path, stack: ExitStack) -> tuple[Settings, str, str]:
    """Server and model are up, our store is migrated."""
    temporal_port, model_port = processes.free_port(), processes.free_port()
    server = stack.enter_context(
        processes.process(processes.temporal_argv(temporal_port, folder), folder / "temporal.log")
    )
    script = [sys.executable, "-m", "roundturn.models.scripted", "--port", str(model_port)]
    model = stack.enter_context(processes.process(script, folder / "model.log"))
    processes.wait_for_port(temporal_port, server)
    processes.wait_for_port(model_port, model)
    task.write_agents(folder / "agents")
    model_url = f"http://127.0.0.1:{model_port}/v1"
    settings = settings_module.load(
        home=folder,
        agents_dir=folder / "agents",
        temporal_address=f"127.0.0.1:{temporal_port}",
        model=task.MODEL,
        model_base_url=model_url,
        model_api_key=task.KEY,
        policy={"allow": ["*"]},
        max_actions_per_hour=1_000_000,
        allow_unverified_verdicts=True,
        log_level="warning",
    )
    database = Database(settings.store_url, busy_s=10)
    await upgrade(database)
    await database.close()
    return settings, f"sqlite:///{folder / 'floor.db'}", model_url


def _environment(settings: Settings) -> dict[str, str]:
    names = ("home", "agents_dir", "temporal_address", "model", "model_base_url", "log_level")
    given = {f"ROUNDTURN_{name.upper()}": str(getattr(settings, name)) for name in names}
    return given | {
        "ROUNDTURN_MODEL_API_KEY": task.KEY,
        "ROUNDTURN_POLICY": settings.policy.model_dump_json(),
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


async def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roundturn-bench-") as name:
        async with asyncio.timeout(LIMIT_S), opened(Path(name)) as run:
            await measure_all(run)
            rows = cost_rows(run)
            weights = [
                *await history_rows(run),
                *await long_rows(run),
                *await memory_rows(run),
                *await approval_rows(run),
            ]
        async with asyncio.timeout(LIMIT_S):
            chain = await chain_rows()
    decisions = decision_rows()
    print(f"Python {platform.python_version()}, {platform.machine()}; Temporal dev server on a file")
    print(f"({', '.join(processes.PRAGMAS)}; {', '.join(processes.TUNING)});")
    print(
        f"stores: SQLite, WAL, synchronous=FULL; {ROUNDS} rounds, turns of {STEPS} steps, results of {task.RESULT_CHARS}"
    )
    print(
        "characters; ratios are ours to the floor's, the median of the rounds, lowest and highest in brackets.\n"
    )
    print(
        table(("measure", "ours / floor", "ours / floor with local tool", "ours and floor", "target"), rows)
    )
    print()
    print(table(("measure", "ours", "floor", "target"), weights))
    print(
        f"\nThe chain itself, without Temporal, in one process: {CALLS} calls each, interleaved, on a store as above; the floor is"
    )
    print(
        "the tool with the audit layer alone, which makes the one write that both make (the call's result).\n"
    )
    print(table(("measure", "figure"), chain))
    print("\nDecisions alone, milliseconds of CPU, the median of rounds that share no name, glob or rule:\n")
    print(table(("measure", "figure", "target"), decisions))
    print(f"\n{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    asyncio.run(main())
