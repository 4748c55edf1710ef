"""The built-in tools by name; adding one is a module in this folder and a line here."""

from collections.abc import Callable, Mapping

from roundturn.agent import AgentDefinition
from roundturn.run import Delegations
from roundturn.tool import BaseTool
from roundturn.tools.delegation import SpawnSubagent, WaitSubagent
from roundturn.tools.files import ReadFile, WriteFile
from roundturn.tools.shell import Bash

BUILTIN: dict[str, type[BaseTool]] = {
    "bash": Bash,
    "read_file": ReadFile,
    "write_file": WriteFile,
}

# Those of an agent that has subagents; they need to know whose and where.
DELEGATION: dict[str, Callable[[Delegations, Mapping[str, AgentDefinition]], BaseTool]] = {
    "spawn_subagent": SpawnSubagent,
    "wait_subagent": WaitSubagent,
}
