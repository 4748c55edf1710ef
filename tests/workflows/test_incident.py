"""The example of the incident, with nothing killed: what each agent does, and that a person decides three times."""

from gateway.dev import incident, proofs
from gateway.dev.incident import RIGHT, WRONG
from tests.conftest import OpenSystem
from tests.incident import SETTINGS, begin, expected_report, scenarios
from tests.requirements import requirement


@requirement("B-02", "B-08", "A-38")
async def test_two_subagents_look_side_by_side_and_their_parent_changes_one_value(system: OpenSystem) -> None:
    s = await system(*scenarios(), **SETTINGS)
    await s.start_worker()
    job = await begin(s)
    asked = []
    async for event in job.follow():
        if event.type == "approval.requested":
            asked.append(event.data["tool"])
            assert await s.decide(event.data["approval_id"]) == "decided"
    assert job.tree.root.tally.state == "completed"
    assert {branch.agent: branch.tally.state for branch in job.tree.root.children} == {
        "log_analyst": "completed",
        "config_reviewer": "completed",
    }
    assert asked == ["write_file", "bash", "write_file"]
    assert incident.changed_lines(s.workdir) == [(WRONG, RIGHT)]
    assert job.checks() == (1, 1)
    assert job.report() == expected_report()
    evidence = job.evidence()
    counted = [*proofs.calls(evidence), *proofs.runs(evidence), await proofs.approvals(evidence)]
    assert [proof.text for proof in counted if not proof.holds] == []
    assert "all in 1 delivery" in " ".join(proof.text for proof in counted)
