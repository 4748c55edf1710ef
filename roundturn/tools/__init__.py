"""The built-in tools by name; adding one is a module in this folder and a line here."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from roundturn.agent import AgentDefinition
from roundturn.run import Delegations
from roundturn.sandbox import Sandbox
from roundturn.tool import BUILTIN as OURS
from roundturn.tool import BaseTool
from roundturn.tools.deferred import CallToolByName, ToolSearch
from roundturn.tools.delegation import SpawnSubagent, WaitSubagent
from roundturn.tools.edit import EditFile
from roundturn.tools.files import ReadFile, WriteFile
from roundturn.tools.grep import Grep
from roundturn.tools.installed import ORIGIN, installed_tools
from roundturn.tools.listing import ListFiles
from roundturn.tools.shell import Bash
from roundturn.tools.web import WebFetch

BUILTIN: dict[str, type[BaseTool]] = {
    "call_tool_by_name": CallToolByName,
    "edit_file": EditFile,
    "grep": Grep,
    "list_files": ListFiles,
    "read_file": ReadFile,
    "tool_search": ToolSearch,
    "web_fetch": WebFetch,
    "write_file": WriteFile,
}

# Those that start processes; they need to know how these are confined.
CONFINED: dict[str, Callable[[Sandbox], BaseTool]] = {
    "bash": Bash,
}

# Those of an agent that has subagents; they need to know whose and where.
DELEGATION: dict[str, Callable[[Delegations, Mapping[str, AgentDefinition]], BaseTool]] = {
    "spawn_subagent": SpawnSubagent,
    "wait_subagent": WaitSubagent,
}


def every_tool(
    runs: Delegations,
    agents: Mapping[str, AgentDefinition],
    sandbox: Sandbox,
    embedded: Iterable[BaseTool] = (),
) -> Iterator[tuple[BaseTool, str]]:
    """All of an installation with their origins, in the order in which models see them (T-09). Raises `AuthorError`."""
    ours = list(_ours(runs, agents, sandbox))
    for tool in ours:
        yield tool, OURS
    for tool in installed_tools({tool.name: type(tool).__name__ for tool in ours}):
        yield tool, ORIGIN
    for tool in embedded:
        yield tool, "embedder"


def _ours(runs: Delegations, agents: Mapping[str, AgentDefinition], sandbox: Sandbox) -> Iterator[BaseTool]:
    for confined in CONFINED.values():
        yield confined(sandbox)
    for make in BUILTIN.values():
        yield make()
    for delegate in DELEGATION.values():
        yield delegate(runs, agents)
