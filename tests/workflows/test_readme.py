"""What the README shows as a first agent and a first tool is taken from it and run."""

import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import ROOT, scenario, step
from tests.workflows.test_subagents import run_ended

BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_LINES = 25


def shown(heading: str, beginning: str) -> str:
    """The block under a heading that begins so."""
    section = (ROOT / "README.md").read_text().split(f"\n### {heading}\n", 1)[1].split("\n### ")[0]
    (found,) = [block for block in BLOCK.findall(section) if block.startswith(beginning)]
    return str(found)


@requirement("A-04")
async def test_the_first_agent_of_the_readme_is_valid_and_answers(system: OpenSystem, tmp_path: Path) -> None:
    text = shown("Your own agent", "+++")
    assert len(text.splitlines()) <= MOST_LINES
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "reader.md").write_text(text)
    validate = [
        str(Path(sys.executable).with_name("roundturn")), "agents", "validate", str(folder / "reader.md")
    ]  # fmt: skip
    done = subprocess.run(validate, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    s = await system(
        scenario("go", step(("read_file", {"path": "a.txt"})), step(text="{{results}}")), agents_dir=folder
    )
    (s.workdir / "a.txt").write_text("what is in the file")
    await s.start_worker()
    session = await s.client.open_session("reader", s.workdir)
    assert "what is in the file" in (await s.ended(await s.send("go", session.id))).text
    body = (await s.model.requests())[0]["body"]
    assert "You change nothing." in body["messages"][0]["content"]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read_file"]


@requirement("A-04", "B-02")
async def test_the_team_of_the_readme_works_with_its_reader(system: OpenSystem, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "reader.md").write_text(shown("Your own agent", "+++"))
    text = shown("A team of agents", "+++")
    assert len(text.splitlines()) <= MOST_LINES
    (folder / "lead.md").write_text(text)
    ask = ("spawn_subagent", {"agent": "reader", "task": "look into a.txt"})
    s = await system(
        scenario("go", step(ask), step(text="asked"), step(text="told: {{newest}}")),
        scenario("look into", step(("read_file", {"path": "a.txt"})), step(text="{{results}}")),
        agents_dir=folder,
    )
    (s.workdir / "a.txt").write_text("what is in the file")
    await s.start_worker()
    session = await s.client.open_session("lead", s.workdir)
    run = await s.send("go", session.id)
    await run_ended(s, run)
    assert "what is in the file" in (await s.client.store.turns.of_run(run))[-1].text


@requirement("T-16", "M-19", "T-09")
async def test_the_first_tool_of_the_readme_is_found_by_the_entry_point_that_it_shows(
    system: OpenSystem, tmp_path: Path
) -> None:
    code, entry = shown("Your own tool", '"""'), shown("Your own tool", "[project.entry-points")
    assert len(code.splitlines()) <= MOST_LINES
    site = tmp_path / "site"
    info = site / "mytools-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "mytools.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mytools\nVersion: 1.0\n")
    group, line = entry.strip().splitlines()
    name = group.removeprefix('[project.entry-points."').removesuffix('"]')
    (info / "entry_points.txt").write_text(f"[{name}]\n{line.replace(chr(34), '')}\n")
    s = await system(
        scenario(
            "go",
            step(("count_words", {"text": "a b c"}), ("count_words", {"words": 1})),
            step(text="{{results}}"),
        )
    )
    await s.start_worker(PYTHONPATH=str(site))
    turn = await s.send("go")
    assert "3" in (await s.ended(turn)).text
    refused = await s.client.store.ledger.read(f"{turn}.0.1")
    assert refused is not None
    assert refused.metadata["error_type"] == "invalid_arguments"
    shown_tools = [tool["function"]["name"] for tool in (await s.model.requests())[0]["body"]["tools"]]
    assert "count_words" in shown_tools
