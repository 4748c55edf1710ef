"""Secrets stay where they were declared: a canary in the key, the environment and the arguments is searched everywhere."""

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step

KEY = "sk-canary-4d1f7e2a9b"
VARIABLE = "canary-5c8e1b6f3d"
PASSWORD = "canary-7a2d9f4e1c"


@requirement("P131", "P132", "X-09", "X-07")
async def test_a_key_is_found_in_no_log_row_event_or_history(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("bash", {"command": "env; cat /proc/self/environ"})), step(text="{{results}}")),
        scenario(
            "refused", step(text="x", faults=[{"kind": "status", "status": 401, "message": f"bad key {KEY}"}])
        ),
        model_api_key=KEY,
        log_level="debug",
    )
    worker = await s.start_worker(MY_PROVIDER_TOKEN=VARIABLE, OPENAI_API_KEY=KEY)
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await s.decide(approval.id)
    row = await s.ended(turn)
    assert row.state == "completed"
    refused = await s.ended(await s.send("refused"))
    assert refused.reason.startswith("credentials")
    found = worker.log.read_bytes() + b"".join(path.read_bytes() for path in s.home.glob("roundturn.db*"))
    found += b"".join(event.SerializeToString() for event in (await s.history(turn)).events)
    found += b"".join(event.SerializeToString() for event in (await s.history(refused.id)).events)
    assert b"PATH=" in row.text.encode(), "the command did print its environment"
    assert KEY.encode() not in found
    assert VARIABLE.encode() not in found


@requirement("P131")
async def test_a_secret_among_arguments_is_seen_by_who_decides_and_by_the_tool_and_by_no_log_or_event(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": f"Authorization: Bearer {PASSWORD}"})), step(text="done")),
        policy={"ask": ["note_*"]},
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    assert approval.arguments["text"] == f"Authorization: Bearer {PASSWORD}", "it may be a program"
    await s.decide(approval.id)
    await s.ended(turn)
    assert PASSWORD in s.effects()[0]
    assert PASSWORD not in str(await s.events(turn))
    assert PASSWORD not in worker.log.read_text()


@requirement("P131", "M-14")
async def test_a_call_that_was_made_to_be_slow_to_mask_is_put_before_a_person_at_once_and_whole(
    system: OpenSystem,
) -> None:
    content = "token=" * 40_000 + "("
    s = await system(
        scenario("go", step(("write_file", {"path": "x", "content": content})), step(text="done")),
        policy={"ask": ["write_file"]},
    )
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    assert approval.arguments == {"path": "x", "content": content}
    await s.decide(approval.id)
    assert (await s.ended(turn)).state == "completed"
    assert (s.workdir / "x").read_text() == content


@requirement("X-07")
async def test_a_name_of_no_tool_that_is_a_secret_reaches_no_event_and_not_temporal(
    system: OpenSystem,
) -> None:
    s = await system(scenario("go", step((KEY, {}), ("no_such_tool", {})), step(text="{{results}}")))
    await s.start_worker()
    turn = await s.send("go")
    row = await s.ended(turn)
    assert "There is no tool named 'no_such_tool'" in row.text
    told = str(await s.events(turn)) + str(
        [event.SerializeToString() for event in (await s.history(turn)).events]
    )
    assert "no_such_tool" in told
    assert KEY not in told


@requirement("X-07")
async def test_a_secret_that_a_tool_brings_back_is_stored_nowhere(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("read_file", {"path": "settings.env"}), ("read_file", {"path": "big.env"})),
            step(text="{{results}}"),
        ),
        result_budget_bytes=1024,
    )
    (s.workdir / "settings.env").write_text(f"HOST=example\nAPI_TOKEN={PASSWORD}\n")
    (s.workdir / "big.env").write_text("x" * 900 + f"\nPASSWORD={PASSWORD}\n" + "y\n" * 2_000)
    worker = await s.start_worker()
    turn = await s.send("go")
    row = await s.ended(turn)
    assert "HOST=example" in row.text
    assert "API_TOKEN=[secret hidden]" in row.text
    found = worker.log.read_bytes() + b"".join(path.read_bytes() for path in s.home.glob("roundturn.db*"))
    found += b"".join(event.SerializeToString() for event in (await s.history(turn)).events)
    blobs = [path for path in (s.home / "blobs").rglob("*") if path.is_file()]
    assert blobs, "the whole of the long result is kept"
    found += b"".join(path.read_bytes() for path in blobs)
    assert PASSWORD.encode() not in found


@requirement("X-07")
async def test_a_secret_in_an_error_is_stored_nowhere_and_not_told_to_temporal(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("odd", {"kind": "tells_a_file"})),
            step(("odd", {"kind": "is_away_with_a_file"})),
            step(text="{{results}}"),
        )
    )
    (s.workdir / "found.txt").write_text(f"no access with API_TOKEN={PASSWORD}")
    worker = await s.start_worker()
    turn = await s.send("go")
    await s.ended(turn)
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    assert call.output == "ValueError: no access with API_TOKEN=[secret hidden]"
    history = b"".join(event.SerializeToString() for event in (await s.history(turn)).events)
    assert b"no access with API_TOKEN=[secret hidden]" in history, "what is tried again is told to Temporal"
    found = history + worker.log.read_bytes()
    found += b"".join(path.read_bytes() for path in s.home.glob("roundturn.db*"))
    assert PASSWORD.encode() not in found


@requirement("X-07")
async def test_a_file_with_a_secret_cannot_be_written_back_without_it(system: OpenSystem) -> None:
    line = f"HOST=example\nAPI_TOKEN={PASSWORD}\n"
    s = await system(
        scenario(
            "go",
            step(("read_file", {"path": "settings.env"})),
            step(
                ("write_file", {"path": "settings.env", "content": "HOST=other\nAPI_TOKEN=[secret hidden]\n"})
            ),
            step(("edit_file", {"path": "settings.env", "old": "HOST=example", "new": "HOST=other"})),
            step(text="{{results}}"),
        )
    )
    (s.workdir / "settings.env").write_text(line)
    await s.start_worker()
    row = await s.ended(await s.send("go"))
    assert row.state == "completed"
    assert (s.workdir / "settings.env").read_text() == line.replace("example", "other"), (
        "edited around it, and whole"
    )
