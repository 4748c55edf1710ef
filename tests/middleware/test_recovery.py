"""Whatever is raised inside becomes a classified result, but for what may pass and for cancellation."""

import asyncio

import pytest

from roundturn.call import CallContext, ToolExecutionResult
from roundturn.errors import ModelUnavailable, ToolFailed, Unavailable
from roundturn.middleware.recovery import Recovery
from tests.middleware.scene import context, done, hushed
from tests.requirements import requirement

RECOVERY = Recovery(hushed)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even this fails")


async def recovered(fault: BaseException) -> ToolExecutionResult:
    async def fail(ctx: CallContext) -> ToolExecutionResult:
        raise fault

    return await RECOVERY(context("change"), fail)


@requirement("M-23")
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (ToolFailed("no such file", "not_found"), "not_found", "no such file"),
        (ValueError("bad"), "tool_error", "ValueError: bad"),
        (KeyError("k"), "tool_error", "KeyError: 'k'"),
        (TimeoutError(), "tool_error", "TimeoutError: "),
        (RecursionError("deep"), "tool_error", "RecursionError: deep"),
        (UnspeakableError(), "tool_error", "UnspeakableError: (its message cannot be shown)"),
        (ExceptionGroup("both", [ValueError("a")]), "tool_error", "ExceptionGroup: both (1 sub-exception)"),
    ],
)
async def test_what_a_tool_raises_is_told_to_the_model(fault: Exception, kind: str, said: str) -> None:
    result = await recovered(fault)
    assert (result.status, result.result.is_error, result.metadata) == (
        "completed",
        True,
        {"error_type": kind},
    )
    assert result.result.output == said


@requirement("P19")
@pytest.mark.parametrize("fault", [ValueError("x\x00\ud800" * 5_000), ToolFailed("x\x00\ud800" * 5_000)])
async def test_what_is_told_is_bounded_and_clean(fault: Exception) -> None:
    output = (await recovered(fault)).result.output
    assert len(output.encode()) <= 2_000
    assert "\x00" not in output


@pytest.mark.parametrize("fault", [Unavailable("locked"), ModelUnavailable("429"), asyncio.CancelledError()])
async def test_what_may_pass_and_cancellation_go_through(fault: BaseException) -> None:
    with pytest.raises(type(fault)):
        await recovered(fault)


async def test_a_result_goes_through_as_it_is() -> None:
    assert await RECOVERY(context("change"), done) == await done(context("change"))


@requirement("X-07")
@pytest.mark.parametrize("fault", [ToolFailed("the key hush is wrong"), ValueError("the key hush is wrong")])
async def test_what_an_error_tells_is_masked(fault: Exception) -> None:
    said = (await recovered(fault)).result.output
    assert "the key *** is wrong" in said
    assert "hush" not in said


@requirement("X-07")
async def test_an_error_is_masked_before_it_is_cut() -> None:
    """Of a secret that the cut goes through, neither half is known for one."""
    for before in range(1_290, 1_310):
        told = (await recovered(ToolFailed("x" * before + "hush" + "y" * 20_000))).result.output
        assert "hu" not in told


@requirement("X-07")
@pytest.mark.parametrize("kind", [Unavailable, ModelUnavailable])
async def test_what_is_tried_again_tells_temporal_no_secret_and_nothing_of_its_cause(
    kind: type[Unavailable],
) -> None:
    fault = kind("ann:hush@host does not answer")
    fault.__cause__ = OSError("no way to ann:hush@host")
    with pytest.raises(kind) as raised:
        await recovered(fault)
    assert raised.value is fault
    assert (fault.detail, str(fault), fault.__cause__) == (*("ann:***@host does not answer",) * 2, None)
