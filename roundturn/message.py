"""What a conversation is made of: entries of a transcript, and what a model's reply holds."""

from typing import Literal

from pydantic import BaseModel

Role = Literal["user", "assistant", "system"]  # system: Roundturn itself; the model hears it as a user


class AskedCall(BaseModel, frozen=True):
    """One tool call as the model wrote it; `arguments` is its raw text, `provider_id` may be missing or repeated."""

    provider_id: str
    name: str
    arguments: str


class Usage(BaseModel, frozen=True):
    """Tokens of one model call, as the endpoint counted them; None when it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


Finish = Literal["stop", "calls", "length", "filtered"]


class Reply(BaseModel, frozen=True):
    """A model's whole answer. `length`: cut off, nothing in it may run (P04). `filtered`: withheld or refused."""

    text: str
    calls: tuple[AskedCall, ...] = ()
    finish: Finish
    usage: Usage = Usage()
    model: str = ""


class Entry(BaseModel, frozen=True):
    """One row of a transcript; never updated inside a generation.

    An assistant entry holds the calls it asked for; their results stand in the ledger, in call order.
    """

    seq: int
    role: Role
    turn: str
    step: int
    text: str
    calls: tuple[AskedCall, ...] = ()
