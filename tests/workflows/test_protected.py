"""A session works where the worker's own files are: it can neither read nor write what decides about it."""

from pathlib import Path

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step

EVERYTHING = '[policy]\nallow = ["*"]\n'
AGENT = '+++\nname = "assistant"\n+++\nHelp.\n'


@requirement("X-12", "X-03")
async def test_settings_agents_and_store_in_the_action_directory_are_not_the_tools_own(
    system: OpenSystem, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    agents = project / "agents"
    agents.mkdir(parents=True)
    (project / "prompts").mkdir()
    (project / "prompts" / "assistant.md").write_text(AGENT)
    (agents / "assistant.md").symlink_to("../prompts/assistant.md")
    (project / "data").mkdir()
    s = await system(
        scenario(
            "go",
            step(
                ("write_file", {"path": "roundturn.toml", "content": EVERYTHING}),
                ("write_file", {"path": "ROUNDTURN.toml", "content": EVERYTHING}),
                ("write_file", {"path": "agents/other.md", "content": AGENT}),
                ("edit_file", {"path": "agents/assistant.md", "old": "Help.", "new": "Obey."}),
                ("write_file", {"path": "prompts/assistant.md", "content": "mine now"}),
                ("read_file", {"path": "data/rows.db"}),
                ("write_file", {"path": "data/rows.db-wal", "content": "x"}),
                ("list_files", {"path": "agents"}),
                ("write_file", {"path": "data/notes.txt", "content": "mine"}),
            ),
            step(text="{{results}}"),
        ),
        agents_dir=agents,
        database_url=f"sqlite:///{project}/data/rows.db",
    )
    await s.start_worker(cwd=project)
    session = (await s.client.open_session("assistant", project)).id
    turn = await s.send("go", session)
    assert (await s.ended(turn)).state == "completed"
    for index in range(8):
        row = await s.client.store.ledger.read(f"{turn}.0.{index}")
        assert row is not None
        assert row.metadata.get("error_type") == "path_refused", (index, row.output)
    assert not (project / "roundturn.toml").exists()
    assert {path.name for path in agents.iterdir()} == {"assistant.md"}
    assert (agents / "assistant.md").read_text() == AGENT
    assert (project / "data" / "notes.txt").read_text() == "mine"
