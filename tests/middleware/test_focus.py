"""The wish for a summary is the model's, not the tool's: it goes past the tool and past what a person approves."""

from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from roundturn.rules import Policy
from tests.middleware.scene import Bench, Change, Look
from tests.requirements import requirement

ALLOWED = Policy(allow=("*",))


class Own(BaseModel):
    summary_focus: str = "mine"


class Focused(Change):
    input_model: ClassVar[type[BaseModel]] = Own


@requirement("M-20", "M-22")
async def test_the_focus_is_kept_beside_the_call_and_the_tool_never_sees_it() -> None:
    tool = Look()
    result = await Bench(tool).call("look", {"text": "a", "summary_focus": "errors"})
    assert tool.runs[0].text == "a"
    assert result.metadata["focus"] == "errors"


@requirement("M-24", "M-25")
async def test_what_a_person_approves_does_not_depend_on_the_focus() -> None:
    bench = Bench(Change())
    await bench.call("change", {"text": "a", "summary_focus": "errors"})
    await bench.call("change", {"text": "a", "summary_focus": "names"})
    (row,) = bench.approvals.rows.values()
    assert "summary_focus" not in row.arguments


async def test_a_tool_that_has_such_an_argument_itself_gets_it() -> None:
    tool = Focused()
    result = await Bench(tool).call("change", {"summary_focus": "theirs"}, ALLOWED)
    assert tool.runs[0].summary_focus == "theirs"  # type: ignore[attr-defined]
    assert "focus" not in result.metadata


@pytest.mark.parametrize("odd", [1, None, ["a"], {"a": 1}])
async def test_a_focus_that_is_no_text_is_an_argument_like_any_other(odd: Any) -> None:
    result = await Bench(Look()).call("look", {"summary_focus": odd})
    assert "focus" not in result.metadata


async def test_a_long_focus_is_cut() -> None:
    result = await Bench(Look()).call("look", {"summary_focus": "x" * 10_000})
    assert len(result.metadata["focus"]) <= 500


async def test_a_focus_is_text_that_every_store_can_hold() -> None:
    result = await Bench(Look()).call("look", {"summary_focus": "a\x00\ud800b"})
    assert result.metadata["focus"] == "a\ufffd\ufffdb"
