"""A tool of another package is found by its entry point: no file of ours knows it."""

from pathlib import Path

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step

TOOL = """
from typing import Any

from pydantic import BaseModel

from roundturn.tool import BaseTool, Effect, ToolContext, ToolResult


class WordsInput(BaseModel):
    text: str


class CountWords(BaseTool):
    name = "count_words"
    description = "Count the words of a text."
    input_model = WordsInput
    effect = Effect.PURE

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult(output=str(len(arguments.text.split())))
"""


def install(folder: Path) -> None:
    info = folder / "mytools-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "mytools.py").write_text(TOOL)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mytools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[roundturn.tools]\ncount_words = mytools:CountWords\n")


@requirement("T-16", "M-19")
async def test_a_tool_of_another_package_is_shown_validated_and_run(
    system: OpenSystem, tmp_path: Path
) -> None:
    install(tmp_path / "site")
    s = await system(
        scenario(
            "go",
            step(("count_words", {"text": "a b c"}), ("count_words", {"words": 1})),
            step(text="{{results}}"),
        )
    )
    await s.start_worker(PYTHONPATH=str(tmp_path / "site"))
    turn = await s.send("go")
    assert "3" in (await s.ended(turn)).text
    refused = await s.client.store.ledger.read(f"{turn}.0.1")
    assert refused is not None
    assert refused.metadata["error_type"] == "invalid_arguments"
    shown = [tool["function"]["name"] for tool in (await s.model.requests())[0]["body"]["tools"]]
    assert "count_words" in shown
