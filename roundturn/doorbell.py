"""The port to whoever must look at a row that was just committed: a wake-up that carries nothing."""

from typing import Literal, Protocol

Standing = Literal["running", "closed", "absent"]


class Doorbell(Protocol):
    """Each method may be repeated, lost and reordered without harm. Raises `Unavailable`."""

    async def ring(self, session: str) -> None:
        """Starts the session's workflow or tells the running one that its inbox has a row."""

    async def wake(self, turn: str) -> None:
        """Tells a turn's workflow to look at its rows; nothing when it is not running."""

    async def standing(self, turn: str) -> Standing:
        """What became of the turn's workflow; `absent` is normal before its first start."""
