"""Delegation: a subagent is given work in the background, or waited for; the workflow starts and waits, not the tool."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from roundturn import ids
from roundturn.agent import AgentDefinition
from roundturn.delegation import reference, tier_refusal
from roundturn.errors import ToolFailed
from roundturn.run import Delegations, NewSubagent, Refusal
from roundturn.tool import AGENT, BaseTool, Directive, Effect, Permission, ToolContext, ToolResult

DEFAULT_WAIT_S = 600.0
LONGEST_WAIT_S = 24 * 3600.0
REFUSED = "subagent_refused"


class Spawn(BaseModel, extra="forbid"):
    agent: str = Field(description="Which subagent; only those you were told of.")
    task: str = Field(min_length=1, description="All it needs to know: it does not see this conversation.")
    title: str = Field(default="", max_length=80, description="A few words for people who watch.")
    blocking: bool = Field(
        default=False, description="Wait for the result here instead of getting it later by itself."
    )
    timeout_s: float = Field(default=DEFAULT_WAIT_S, ge=1, le=LONGEST_WAIT_S, description="For blocking.")


class SpawnSubagent(BaseTool):
    """Spawns at most one for a call, however often the call is tried (the call id is the key)."""

    name = "spawn_subagent"
    description = (
        "Gives work to a subagent, which does it in the background in the same directory. Returns a reference "
        "at once; the result comes to you by itself later. Call it several times in one reply for parallel work."
    )
    input_model = Spawn
    effect = Effect.KEYED
    limit_s = 30.0
    directive = True
    category = "delegation"
    permission = Permission.WRITE

    def __init__(self, runs: Delegations, agents: Mapping[str, AgentDefinition]) -> None:
        self._runs = runs
        self._agents = agents

    def shown_to(self, delegates: Mapping[str, str]) -> str | None:
        if not delegates:
            return None
        return self.description + "".join(f"\n- {name}: {told}" for name, told in delegates.items())

    async def execute(self, arguments: Spawn, context: ToolContext) -> ToolResult:
        parent: AgentDefinition = context.metadata[AGENT]
        child = self._allowed(parent, arguments.agent)
        wanted = NewSubagent(
            agent=child.name,
            task=arguments.task,
            title=arguments.title,
            max_result_chars=child.max_result_chars,
            awaited=arguments.blocking,
        )
        spawned = await self._runs.spawn(context.idempotency_key, wanted)
        if isinstance(spawned, Refusal):
            raise ToolFailed(spawned.detail, spawned.kind)
        return ToolResult(
            output=reference(spawned.session, spawned.run, child.name, spawned.held),
            directive=Directive(
                start="" if spawned.held else spawned.session,
                wait_s=arguments.timeout_s if arguments.blocking else None,
            ),
        )

    def _allowed(self, parent: AgentDefinition, name: str) -> AgentDefinition:
        """By the frozen definition of the parent and the present one of the child (A-05, A-19)."""
        if name not in parent.delegates:
            known = ", ".join(parent.delegates) or "nobody"
            raise ToolFailed(f"{parent.name} may delegate to {known}; not to {name[:64]!r}", REFUSED)
        child = self._agents.get(name)
        if child is None:
            raise ToolFailed(f"{name} is not defined on this worker any more", REFUSED)
        if (refusal := tier_refusal(parent, child)) is not None:
            raise ToolFailed(refusal, REFUSED)
        return child


class Wait(BaseModel, extra="forbid"):
    subagent: str = Field(description="subagent_session_id (or task_id) of a reference you got.")
    timeout_s: float = Field(default=DEFAULT_WAIT_S, ge=1, le=LONGEST_WAIT_S)


class WaitSubagent(BaseTool):
    """Registers the call for the result; the workflow waits, no worker is busy meanwhile."""

    name = "wait_subagent"
    description = (
        "Waits for a subagent's result and returns it. Use it only when you cannot go on without: "
        "results come by themselves."
    )
    input_model = Wait
    effect = Effect.PURE
    limit_s = 30.0
    brief = True
    directive = True
    category = "delegation"
    permission = Permission.READ

    def __init__(self, runs: Delegations, agents: Mapping[str, AgentDefinition]) -> None:
        self._runs = runs

    def shown_to(self, delegates: Mapping[str, str]) -> str | None:
        return self.description if delegates else None

    async def execute(self, arguments: Wait, context: ToolContext) -> ToolResult:
        session = ids.session_of(arguments.subagent.strip())
        refusal = await self._runs.wait_for(context.idempotency_key, session)
        if refusal is not None:
            raise ToolFailed(refusal.detail, refusal.kind)
        return ToolResult(output="", directive=Directive(wait_s=arguments.timeout_s))
