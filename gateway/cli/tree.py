"""A run and its subagents as a tree: each agent with the tally of its own run."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.cli.tally import Tally, Used
from gateway.cli.text import row_of

if TYPE_CHECKING:
    from roundturn.event import RunEvent


@dataclass
class Branch:
    """One agent at work. `name` is its own in this tree: the second of two log_analysts is `log_analyst 2`."""

    run: str
    session: str
    agent: str
    name: str
    title: str = ""
    tally: Tally = field(default_factory=Tally)
    children: "list[Branch]" = field(default_factory=list)

    def __iter__(self) -> "Iterator[Branch]":
        """Itself and all below, each before what it has delegated."""
        yield self
        for child in self.children:
            yield from child


class Tree:
    """Fed the events of a run and of its subagents' runs, each run's in order from the first.

    A subagent's run is known from its `subagent.spawned` on; what comes before is not in the tree.
    """

    def __init__(self, run: str, agent: str) -> None:
        self.root = Branch(run, run.rpartition("/")[0], agent, row_of(agent))
        self._branches = {run: self.root}

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.root)

    def add(self, event: "RunEvent") -> Branch | None:
        """The branch whose run it is, which has heard of it."""
        branch = self._branches.get(event.run)
        if branch is None:
            return None
        branch.tally.add(event)
        if event.type == "subagent.spawned":
            self._grow(branch, event)
        return branch

    def of_run(self, run: str) -> Branch | None:
        return self._branches.get(run)

    def _grow(self, parent: Branch, event: "RunEvent") -> None:
        data = event.data
        if data["run"] in self._branches:
            return
        agent = row_of(data["agent"])
        alike = sum(branch.agent == data["agent"] for branch in self)
        name = agent if alike == 0 else f"{agent} {alike + 1}"
        title = row_of(data.get("title") or "")
        branch = Branch(data["run"], data["session"], data["agent"], name, title)
        parent.children.append(branch)
        self._branches[branch.run] = branch

    @property
    def is_alone(self) -> bool:
        return not self.root.children

    @property
    def used(self) -> Used:
        total = Used()
        for branch in self:
            total.add(branch.tally.used)
        return total

    @property
    def model_calls(self) -> int:
        return sum(branch.tally.model_calls for branch in self)

    @property
    def unknown(self) -> list[tuple[Branch, str]]:
        """The calls whose outcome nobody knows, with who made them."""
        return [(branch, call) for branch in self for call in branch.tally.unknown]

    @property
    def waiting(self) -> list[tuple[Branch, str, str]]:
        """Who waits for a person: approval and call."""
        return [(branch, *pair) for branch in self for pair in branch.tally.waiting.items()]
