"""On the way back a result is made to fit; the whole of it is kept where it can be."""

import pytest

from roundturn.call import CallContext, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.middleware.shaping import Shaping
from roundturn.rules import Policy
from roundturn.telemetry import HIDDEN
from roundturn.tool import ToolResult
from tests.middleware.scene import Bench, Change, FakeBlobs, context, hushed
from tests.requirements import requirement


async def shaped(blobs: FakeBlobs, output: str, budget: int = 1_000) -> ToolExecutionResult:
    async def inner(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.completed(ToolResult(output=output), own="kept")

    return await Shaping(blobs, budget, hushed)(context("change"), inner)


async def test_what_fits_is_not_touched_and_not_stored() -> None:
    blobs = FakeBlobs()
    result = await shaped(blobs, "x" * 1_000)
    assert (result.result.output, result.metadata, blobs.kept) == ("x" * 1_000, {"own": "kept"}, [])


@requirement("P20")
@pytest.mark.parametrize("text", ["x" * 5_000_000, "ü" * 501, "😀" * 100_000])
async def test_what_does_not_fit_is_cut_to_the_budget_and_kept_whole(text: str) -> None:
    blobs = FakeBlobs()
    result = await shaped(blobs, text)
    assert len(result.result.output.encode()) <= 1_000
    assert f"{len(text.encode())} bytes in all" in result.result.output
    assert blobs.kept == [text.encode()]
    assert result.metadata == {
        "own": "kept",
        "original": "digest1",
        "original_bytes": len(text.encode()),
    }


@requirement("P19")
async def test_the_output_is_clean_on_both_ways() -> None:
    blobs = FakeBlobs()
    assert (await shaped(blobs, "a\x00b\ud800")).result.output == "a\ufffdb\ufffd"
    await shaped(blobs, "a\x00" * 1_000)
    assert blobs.kept == [("a\ufffd" * 1_000).encode()]


@requirement("M-23")
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), Unavailable("bucket is away")])
async def test_a_result_counts_though_its_original_could_not_be_kept(fault: Exception) -> None:
    """The tool has run: an error here would tell the model, or Temporal, that it must be tried again."""
    tool = Change("x" * 5_000)
    bench = Bench(tool)
    bench.blobs.fault = fault
    result = await bench.call("change", policy=Policy(allow=("*",)))
    assert (result.status, result.result.is_error) == ("completed", False)
    assert result.result.output.startswith("xxx")
    assert result.metadata == {"original_bytes": 5_000, "original_lost": str(fault)}
    assert len(tool.runs) == 1


@requirement("X-07")
async def test_a_secret_is_masked_before_the_original_is_kept_and_before_the_cut() -> None:
    blobs = FakeBlobs()
    result = await shaped(blobs, "x" * 660 + "hush" * 500)
    assert blobs.kept == [("x" * 660 + "***" * 500).encode()]
    assert "hus" not in result.result.output


@requirement("X-07")
@pytest.mark.parametrize("arguments", [{"text": f"KEY={HIDDEN}"}, {"text": "a", "more": [{"deep": HIDDEN}]}])
async def test_what_was_hidden_cannot_be_written_back_in_the_place_of_the_secret(
    arguments: dict[str, object],
) -> None:
    tool = Change()
    bench = Bench(tool)
    result = await bench.call("change", arguments, Policy(allow=("*",)))
    assert (result.status, result.metadata["error_type"]) == ("denied", "hidden_secret")
    assert (tool.runs, bench.approvals.rows) == ([], {})
    assert "edit_file" in result.result.output
