"""The composition root: the one place that chooses adapters and puts the chain, the activities and the workers together."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.endings import Endings
from activities.inbox import CallOptions, InboxActivities
from activities.model import ModelActivities
from activities.reconcile import ReconcileActivities
from activities.snapshots import Snapshots
from activities.tools import ToolActivities
from activities.turns import TurnActivities
from roundturn import middleware
from roundturn.agent import AgentDefinition
from roundturn.agents import load_agents
from roundturn.call import CallContext, Middleware
from roundturn.doubts import doubts
from roundturn.model import ModelPort
from roundturn.models.openai_chat import OpenAIChat
from roundturn.registry import ToolRegistry
from roundturn.rules import Layer, Rule
from roundturn.sandbox import Sandbox
from roundturn.sandboxes import choose
from roundturn.settings import FILE_NAME, WORK, Settings, held_secrets
from roundturn.store import Store
from roundturn.stores import files, open_store
from roundturn.telemetry import Masking
from roundturn.tool import BaseTool, ToolContext
from roundturn.tools import every_tool
from worker.snapshot import Freezer
from workflows.doorbell import TemporalDoorbell
from workflows.wire import WORKFLOWS

log = structlog.get_logger()

# A locked store fails a local activity soon; its retry policy waits on (design section 3).
CONTROL_BUSY_S = 1.0
# Kept in memory to be gone on with at once, about 85 KB each. A running turn and its session are two, and no more
# turns run at once than the worker has activity slots (100); whoever waits for a person beyond that is replayed.
CACHED_WORKFLOWS = 500


@dataclass(frozen=True)
class Additions:
    """What an embedder brings: tools, middleware (between shaping and focus), rules, and a wrapping of the store."""

    tools: Iterable[BaseTool] = ()
    middleware: Iterable[Middleware] = ()
    rules: tuple[Rule, ...] = ()
    wrap_store: Callable[[Store], Store] = field(default=lambda store: store)


def utc_now() -> datetime:
    return datetime.now(UTC)


def masking(settings: Settings) -> Masking:
    return Masking(held_secrets(settings, os.environ))


def build_registry(
    settings: Settings,
    store: Store,
    agents: Mapping[str, AgentDefinition],
    sandbox: Sandbox,
    additions: Additions,
) -> ToolRegistry:
    """Every tool and the whole chain. Raises `AuthorError` for a name that is taken or a broken contract."""

    deciding = (*files(settings.store_url), *decides_about_tools(settings))

    def surroundings(ctx: CallContext) -> ToolContext:
        protected = (*deciding, *protected_paths(settings.home, ctx.workdir))
        return ToolContext(ctx.workdir, ctx.tool_call_id, protected, ctx.metadata)

    registry = ToolRegistry(surroundings)
    for tool, origin in every_tool(store.runs, agents, sandbox, additions.tools):
        registry.register(tool, origin)
    install_chain(registry, settings, store, additions.middleware)
    return registry


def install_chain(
    registry: ToolRegistry, settings: Settings, store: Store, extra: Iterable[Middleware] = ()
) -> None:
    middleware.install(
        registry,
        store,
        approval_ttl=timedelta(seconds=settings.approval_ttl_s),
        result_budget_bytes=settings.result_budget_bytes,
        max_actions_per_hour=settings.max_actions_per_hour,
        redact=masking(settings).arguments,
        mask=masking(settings).output,
        clock=utc_now,
        extra=extra,
    )


def protected_paths(home: Path, workdir: Path) -> tuple[Path, ...]:
    """What no file tool may touch (X-12): the home, unless the action directory is the session's own inside it."""
    return () if workdir.is_relative_to(home / WORK) else (home,)


def decides_about_tools(settings: Settings) -> tuple[Path, ...]:
    """What a worker reads at its start, wherever a session works: who may write it decides what it may do tomorrow."""
    here = (Path(FILE_NAME).absolute(),)
    folder = settings.agents_dir
    return here if folder is None else (*here, folder, *(path.resolve() for path in folder.glob("*.md")))


def build_model(settings: Settings) -> ModelPort:
    return OpenAIChat(
        base_url=settings.model_base_url or None,
        # An endpoint of one's own often wants no key, and the SDK wants one.
        api_key=settings.model_api_key.get_secret_value() or ("unused" if settings.model_base_url else ""),
        timeout_s=settings.model_timeout_s,
    )


@asynccontextmanager
async def build_workers(
    settings: Settings, client: Client, additions: Additions
) -> AsyncIterator[list[Worker]]:
    """Two workers of one process: control, models and pure tools; and tools with side effects."""
    async with AsyncExitStack() as stack:
        store = additions.wrap_store(
            await stack.enter_async_context(
                open_store(settings.store_url, settings.home / "blobs", CONTROL_BUSY_S)
            )
        )
        model = build_model(settings)
        stack.push_async_callback(model.close)
        agents = load_agents(settings.agents_dir)
        registry = build_registry(settings, store, agents, await find_sandbox(settings), additions)
        embedded = Layer(name="embedder", rules=additions.rules)
        for layer in (settings.policy.layer, *(agent.layer for agent in agents.values()), embedded):
            for doubt in doubts(layer, registry.specs(), agents):
                log.warning("rules.doubtful", why=doubt)
        freezer = Freezer(agents, registry, settings, additions.rules)
        doorbell = TemporalDoorbell(client, settings)
        endings = Endings(store, doorbell)
        snapshots = Snapshots(store.sessions)
        tools = ToolActivities(store, registry, snapshots)
        owners = (
            InboxActivities(store, endings, snapshots, freezer, call_options(settings)),
            TurnActivities(store, endings, settings.allow_unverified_verdicts),
            ModelActivities(store, model, registry, snapshots, masking(settings).value, utc_now),
            ReconcileActivities(store, doorbell, endings),
            tools,
        )
        drain = timedelta(seconds=settings.drain_s)
        sticky = timedelta(seconds=2)  # after a kill -9 the next worker gets the work after 2 s instead of 10
        yield [
            Worker(
                client,
                task_queue=settings.task_queue,
                workflows=WORKFLOWS,
                activities=[method for owner in owners for method in activity_methods(owner)],
                max_cached_workflows=CACHED_WORKFLOWS,
                sticky_queue_schedule_to_start_timeout=sticky,
                graceful_shutdown_timeout=drain,
            ),
            Worker(
                client,
                task_queue=settings.tools_queue,
                activities=activity_methods(tools),
                graceful_shutdown_timeout=drain,
            ),
        ]


async def find_sandbox(settings: Settings) -> Sandbox:
    """The one of this worker, tried, and told in one line of the log."""
    outside = files(settings.store_url)
    sandbox, why = await asyncio.to_thread(choose, settings.sandbox, settings.home, outside)
    level = logging.INFO
    if settings.sandbox != "none" and not sandbox.confinement.is_complete:
        level = logging.ERROR if settings.sandbox == "bwrap" else logging.WARNING
    log.log(
        level,
        "worker.sandbox",
        why=why,
        **asdict(sandbox.confinement),
    )
    return sandbox


def call_options(settings: Settings) -> CallOptions:
    return CallOptions(
        tools_queue=settings.tools_queue,
        heartbeat_s=settings.heartbeat_timeout_s,
        model_limit_s=settings.model_timeout_s,
        model_attempts=settings.model_attempts,
    )


def activity_methods(owner: Any) -> list[Callable[..., Any]]:
    """The methods of `owner` that are activities, for the worker."""
    found = (getattr(owner, name) for name in dir(owner) if not name.startswith("__"))
    return [method for method in found if hasattr(method, "__temporal_activity_definition")]
