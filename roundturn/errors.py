"""What can go wrong, grouped by who must act."""

from datetime import timedelta


class RoundturnError(Exception):
    """The one root. `hint` says what to do next, in a sentence a person can follow."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint

    def lines(self) -> str:
        """As a program without more of a screen ends; whoever started it finds the cause by its first word."""
        return f"error: {self.detail}\n  {self.hint}".rstrip()


class ToolFailed(RoundturnError):
    """For the model: the tool could not do it; the text becomes an error result.

    `kind` names the class of failure.
    """

    def __init__(self, detail: str, kind: str = "tool_failed") -> None:
        super().__init__(detail)
        self.kind = kind


class UsageError(RoundturnError):
    """For the person at the keyboard: the request cannot be understood or refers to nothing."""


class Refused(RoundturnError):
    """For the person: understood and not allowed (a claimed identity, a foreign id)."""


class Settled(RoundturnError):
    """For the person: too late, somebody or the clock was first."""


class ConfigurationError(RoundturnError):
    """For the operator: a setting, definition or policy is wrong; names the place."""


class Unavailable(RoundturnError):
    """For the operator and for Temporal's retry: a store, server or endpoint is not reachable now."""


class ModelUnavailable(Unavailable):
    """The endpoint failed in a way that may pass: try again, after `retry_after` when it said so."""

    def __init__(self, detail: str, retry_after: timedelta | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class ModelRefused(RoundturnError):
    """The endpoint said no and will say it again (400, 401, 404, filtered): the turn ends.

    `kind` names the class of refusal.
    """

    def __init__(self, detail: str, kind: str = "model_refused", hint: str = "") -> None:
        super().__init__(detail, hint)
        self.kind = kind


class AuthorError(RoundturnError):
    """For the author of a tool, middleware or agent: the contract is broken, found at start."""
