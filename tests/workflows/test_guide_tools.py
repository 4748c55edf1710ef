"""The guide to tools, rules and layers is followed to the letter: its pieces are cut out of it and run."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import ROOT, scenario, step
from tests.workflows.test_readme import BLOCK

GUIDE = (ROOT / "docs" / "guides" / "tools.md").read_text()


def piece(beginning: str) -> str:
    (found,) = [block for block in BLOCK.findall(GUIDE) if block.startswith(beginning)]
    return str(found)


def install(site: Path) -> Path:
    """The package of the guide, as pip would install it; returns the worker's program."""
    package = site.parent / "mytools"
    package.mkdir()
    (package / "pyproject.toml").write_text(piece("[build-system]"))
    pieces = [piece('"""Tickets'), piece("from pydantic import BaseModel")]
    (package / "mytools.py").write_text("\n\n".join(pieces))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(site.parent)]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    (wheel,) = site.parent.glob("mytools-*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "mylayer.py").write_text(piece('"""A layer'))
    program = site / "myworker.py"
    program.write_text(piece('"""A worker'))
    return program


@requirement("T-16", "M-18", "R-06", "R-08", "R-09")
async def test_a_tool_a_rule_and_a_layer_from_outside_work_as_the_guide_says(
    system: OpenSystem, tmp_path: Path
) -> None:
    program = install(tmp_path / "site")
    s = await system(
        scenario(
            "go",
            step(("show_ticket", {"ticket": "T-1"}), ("show_ticket", {"ticket": "T-9"})),
            step(
                ("show_ticket", {"ticket": "T-1"}),
                ("close_ticket", {"ticket": "T-1"}),
                ("close_ticket", {"ticket": "TEST-1"}),
            ),
            step(
                ("label_ticket", {"ticket": "T-1", "add": "slow"}),
                ("label_ticket", {"ticket": "T-1", "ad": "shop"}),
            ),
            step(("label_ticket", {"ticket": "T-1"})),
            step(text="{{results}}"),
        )
    )
    (s.home / "roundturn.toml").write_text(piece("[[policy.rules]]"))
    path = os.pathsep.join((str(ROOT), str(program.parent)))
    await s.start_worker(program=(str(program),), PYTHONPATH=path)
    turn = await s.send("go")
    row = await s.ended(turn)

    async def told(position: str, turn: str = turn) -> tuple[str, str]:
        found = await s.client.store.ledger.read(f"{turn}.{position}")
        assert found is not None
        return found.output, str(found.metadata.get("error_type", ""))

    assert await told("0.0") == ("checkout is slow", "")
    assert await told("0.1") == ("there is no ticket T-9; there are T-1", "not_found")
    assert await told("1.0") == ("You did exactly this before.", "echo")
    output, error = await told("1.1")
    assert error == "tool_policy_denied"
    assert "'tickets-stay-open-at-night' of the operator layer: a person closes tickets" in output
    assert await told("1.2") == (f'{{"closed":"TEST-1","request":"{turn}.1.2"}}', "")
    assert await told("2.0") == ('["slow"]', "")
    output, error = await told("2.1")
    assert error == "invalid_arguments"
    assert "ad: Extra inputs are not permitted" in output
    assert await told("3.0") == ('["slow"]', "")
    assert row.state == "completed"
    another = await s.send("go")
    await s.ended(another)
    assert await told("0.0", another) == ("checkout is slow", ""), "nobody else has said it in this turn"
    shown = {
        tool["function"]["name"]: tool["function"] for tool in (await s.model.requests())[0]["body"]["tools"]
    }
    assert shown["show_ticket"]["description"] == "Show what a ticket says."
    assert shown["show_ticket"]["parameters"]["properties"]["ticket"]["description"] == "Such as T-1."
    assert shown["label_ticket"]["parameters"]["additionalProperties"] is False
    assert set(shown["close_ticket"]["parameters"]["properties"]) == {"ticket"}


@requirement("P-03", "T-04", "T-16")
async def test_a_call_of_the_class_that_only_reads_runs_in_plan_mode(
    system: OpenSystem, tmp_path: Path
) -> None:
    program = install(tmp_path / "site")
    s = await system(
        scenario(
            "go",
            step(
                ("label_ticket", {"ticket": "T-1"}),
                ("label_ticket", {"ticket": "T-1", "add": "slow"}),
                ("show_ticket", {"ticket": "T-1"}),
            ),
            step(text="{{results}}"),
        )
    )
    rules = """
[[policy.rules]]
id = "no-packages"
effect = "deny"
match = { origin = "installed", name = "show_*" }
"""
    (s.home / "roundturn.toml").write_text(rules)
    path = os.pathsep.join((str(ROOT), str(program.parent)))
    await s.start_worker(program=(str(program),), PYTHONPATH=path)
    session = await s.client.open_session("assistant", s.workdir, run_mode="plan")
    turn = await s.send("go", session.id)
    await s.ended(turn)
    rows = [await s.client.store.ledger.read(f"{turn}.0.{n}") for n in range(3)]
    assert [row and row.metadata.get("rule_id", row.output) for row in rows] == ["[]", "plan", "no-packages"]


@requirement("M-24")
async def test_a_layer_from_outside_sees_the_way_back_from_a_person_as_the_same_call(
    system: OpenSystem, tmp_path: Path
) -> None:
    program = install(tmp_path / "site")
    s = await system(
        scenario("go", step(("close_ticket", {"ticket": "T-2"})), step(text="{{results}}")),
        policy={"ask": ["close_ticket"]},
    )
    path = os.pathsep.join((str(ROOT), str(program.parent)))
    await s.start_worker(program=(str(program),), PYTHONPATH=path)
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await s.decide(approval.id)
    assert '"closed":"T-2"' in (await s.ended(turn)).text
