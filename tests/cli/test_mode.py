"""Plan mode as a person meets it: which rule refused a call, what waits in vain, and the way back."""

from tests.cli.conftest import OpenDesk
from tests.requirements import requirement
from tests.system import scenario, step, until

WRITES = ("write_file", {"path": "a.txt", "content": "x"})


@requirement("P-01", "R-15")
async def test_a_refused_call_names_its_rule_in_every_view_and_the_mode_its_way_out(desk: OpenDesk) -> None:
    d = await desk(scenario("write", step(WRITES, WRITES), step(text="I may not")))
    done = await d.roundturn("run", "write", "--mode", "plan")
    session = (await d.system.client.store.sessions.page("", 1))[0].id
    assert done.code == 0, done
    assert done.err.count("denied by plan (run mode layer)") == 2
    assert done.err.count(f"to let its tools change things: roundturn mode {session} build") == 1
    plain = await d.roundturn("events", session, "--types", "tool.settled")
    assert plain.out.count("write_file denied by plan (run mode layer)") == 2
    found = (await d.roundturn("events", session, "--types", "tool.settled", "--json")).document["items"]
    assert {(one["data"]["rule"], one["data"]["layer"]) for one in found} == {("plan", "run mode")}


@requirement("P-01")
async def test_plan_mode_says_which_open_requests_it_makes_vain(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "echo x > a"})), step(text="I may not")))
    early = await d.roundturn("mode", await d.system.session(), "plan")
    assert (early.out, early.err) == ("plan\n", "")
    session, run = await d.start("ship")
    (asked,) = await d.system.pending(run)
    done = await d.roundturn("mode", session, "plan")
    assert (done.code, done.out) == (0, "plan\n")
    assert "1 request waits for a person; in plan mode a call that changes something is refused" in done.err
    assert f"  {asked.id[:11]}  bash  echo x > a\n" in done.err
    assert f"roundturn mode {session} build" in done.err
    again = await d.roundturn("mode", session, "plan", "--json")
    assert (again.document["waiting"], again.err) == ([asked.id], "")
    back = await d.roundturn("mode", session, "build")
    assert (back.out, back.err) == ("build\n", "")
    await d.roundturn("mode", session, "plan")
    await d.system.client.decide(asked.id, "approve", "somebody")

    async def ended() -> bool:
        return (await d.system.client.run(run)).ended_at is not None

    await until(ended, "the run's end")
    shown = await d.roundturn("events", run, "--types", "tool.settled")
    assert "denied by plan (run mode layer)" in shown.out
