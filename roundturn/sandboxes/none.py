"""No sandbox: where the operator wants none, where there is none, and where one is demanded and missing."""

from roundturn.sandbox import Command, Confinement, SandboxRefused


class Unconfined:
    """The command runs as the worker's user and reaches what that user reaches."""

    confinement = Confinement("none", hides_state=False, hides_network=False)

    def confine(self, command: Command) -> Command:
        return command


class Refusing:
    """Nothing runs: a sandbox that was demanded cannot be had (X-03)."""

    confinement = Confinement("refused", hides_state=False, hides_network=False)

    def __init__(self, why: str) -> None:
        self._why = why

    def confine(self, command: Command) -> Command:
        raise SandboxRefused(self._why)
