"""Approvals on the command line: what is shown is what is answered, and the answer says what it did."""

import codecs
import os
import pty
import signal
import subprocess
from typing import Any, get_args

from gateway.cli.approvals import StateChoice
from roundturn.approval import State
from tests.cli.conftest import ROUNDTURN, Desk, OpenDesk
from tests.requirements import requirement
from tests.system import scenario, step, until

KEYS = {
    "approval_id", "state", "kind", "session", "turn", "call", "tool", "arguments", "digest", "rule", "reason",
    "expires_at", "workflow_id",
}  # fmt: skip
ASKS = scenario("ship", step(("bash", {"command": "echo shipped"})), step(text="it is shipped"))


class Terminal:
    """A command whose three streams are a terminal that the test types into."""

    def __init__(self, d: Desk, *arguments: str, columns: int = 200) -> None:
        self._far, near = pty.openpty()
        os.set_blocking(self._far, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
        environment = {**d.roundturn.environment, "TERM": "xterm", "COLUMNS": str(columns)}
        self.process = subprocess.Popen(
            [ROUNDTURN, *arguments], stdin=near, stdout=near, stderr=near, env=environment, start_new_session=True
        )  # fmt: skip
        os.close(near)
        self.said = ""
        d.roundturn.started.append(self)

    async def says(self, text: str) -> None:
        await until(lambda: text in self.read(), f"{text!r} on the terminal")

    def type(self, text: str) -> None:
        os.write(self._far, text.encode())

    async def ended(self) -> int:
        def over() -> bool:
            self.read()
            return self.process.poll() is not None

        await until(over, "the command's end")
        self.read()
        os.close(self._far)
        return self.process.returncode

    def read(self) -> str:
        try:
            while more := os.read(self._far, 65536):
                self.said += self._decoder.decode(more)
        except (BlockingIOError, OSError):
            pass
        return self.said


async def test_the_list_has_the_keys_of_the_contract_and_the_digest_of_the_exact_call(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    done = await d.roundturn("approvals", "list", "--json")
    assert (done.code, done.err, done.document["next"]) == (0, "", None)
    (found,) = done.document["items"]
    assert set(found) == KEYS
    assert (found["approval_id"], found["digest"], found["kind"]) == (row.id, row.digest, "approval")
    assert found["arguments"]["command"] == "echo shipped"
    assert found["workflow_id"] == f"turn/{row.turn}"
    assert found["expires_at"].endswith("Z")


async def test_a_pipe_gets_tabs_whole_ids_and_no_colour(desk: OpenDesk) -> None:
    d = await desk(
        scenario("ship", step(("bash", {"command": "echo a\tb\nrm \x1b[8mc\x1b[0m"})), step(text="x"))
    )
    row = await d.asked("ship it")
    done = await d.roundturn("approvals", "list", "--header")
    header, line = done.out.splitlines()
    assert header.split("\t") == ["id", "state", "tool", "summary", "agent", "expires"]
    fields = line.split("\t")
    assert fields[:3] == [row.id, "pending", "bash"]
    assert fields[3] == r"echo a\tb rm \x1b[8mc\x1b[0m"
    assert "\x1b" not in done.out


async def test_an_empty_list_says_so_on_stderr_only(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    plain = await d.roundturn("approvals", "list")
    assert (plain.code, plain.out, plain.err) == (0, "", "nothing waits\n")
    assert (await d.roundturn("approvals", "list", "--json")).document == {"items": [], "next": None}


async def test_watch_adds_a_line_for_each_new_one_until_ctrl_c(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    watching = d.roundturn.start("approvals", "list", "--watch")
    first = await d.asked("ship it")
    await watching.says(first.id, "out")
    second = await d.asked("ship it")
    await watching.says(second.id, "out")
    watching.interrupt()
    done = await watching.ended()
    assert done.code == 130
    assert [line.split("\t")[0] for line in done.out.splitlines()] == [first.id, second.id]


@requirement("P39")
async def test_without_a_terminal_approving_needs_the_digest_of_what_was_shown(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    bare = await d.roundturn("approvals", "approve", row.id)
    assert bare.code == 2
    assert "--digest" in bare.err
    short = await d.roundturn("approvals", "approve", row.id, "--digest", row.digest[:11])
    assert short.code == 2
    wrong = await d.roundturn("approvals", "approve", row.id, "--digest", "0" * 12, "--json")
    assert (wrong.code, wrong.out, wrong.error["type"]) == (6, "", "settled")
    assert "not what you were shown" in wrong.error["detail"]
    assert (await d.system.client.store.approvals.read(row.id)).state == "pending"  # type: ignore[union-attr]
    grouped = " ".join(row.digest[i : i + 4] for i in (0, 4, 8)).upper()
    right = await d.roundturn("approvals", "approve", row.id[3:11], "--digest", grouped, "--json")
    assert right.code == 0, right
    assert set(right.document) == KEYS | {"standing", "actor", "picked_up_after_s"}
    assert (right.document["standing"], right.document["state"]) == ("decided", "approved")
    assert right.document["picked_up_after_s"] < 10
    assert (await d.system.ended(row.turn)).text == "it is shipped"


@requirement("P39")
async def test_the_second_yes_is_noted_and_a_no_after_it_is_told_who_was_first(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    digest = ("--digest", row.digest)
    first = await d.roundturn("approvals", "approve", row.id, *digest, "--as", "ada")
    again = await d.roundturn("approvals", "approve", row.id, *digest, "--as", "bob")
    other = await d.roundturn("approvals", "deny", row.id, "--reason", "no", "--as", "bob", "--json")
    assert (first.code, again.code, other.code) == (0, 0, 6)
    assert "picked up after" in first.err
    assert "already approved by ada at" in again.err
    assert other.error["detail"].startswith("ada approved this at")
    assert (await d.system.ended(row.turn)).state == "completed"


@requirement("P39")
async def test_of_many_answers_at_once_one_decides_and_the_tool_runs_once(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "echo x >> log"})), step(text="done")))
    row = await d.asked("ship it")
    yes = [d.roundturn.start("approvals", "approve", row.id, "--digest", row.digest) for _ in range(3)]
    no = d.roundturn.start("approvals", "deny", row.id, "--reason", "wait")
    codes = [(await one.ended()).code for one in (*yes, no)]
    ended = await d.system.ended(row.turn)
    assert ended.state == "completed"
    assert codes in ([0, 0, 0, 6], [6, 6, 6, 0])
    log = d.system.workdir / "log"
    assert (log.read_text() if log.exists() else "") == ("x\n" if codes[3] == 6 else "")


async def test_a_refusal_needs_a_reason_and_the_agent_reads_it(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "echo x"})), step(text="told: {{results}}")))
    row = await d.asked("ship it")
    bare = await d.roundturn("approvals", "deny", row.id)
    assert bare.code == 2
    assert "--reason" in bare.err
    done = await d.roundturn("approvals", "deny", row.id, "--reason", "wrong branch", "--as", "ada")
    assert done.code == 0
    assert done.out.split("\t") == [row.id, "denied", "decided\n"]
    assert "wrong branch" in (await d.system.ended(row.turn)).text
    late = await d.roundturn("approvals", "approve", row.id, "--digest", row.digest)
    assert late.code == 6
    assert "ada denied this at" in late.err and 'wrong branch"' in late.err


@requirement("P42")
async def test_an_answer_after_the_expiry_or_the_stop_is_code_6_and_says_which(desk: OpenDesk) -> None:
    d = await desk(ASKS, approval_ttl_s=1)
    expired = await d.asked("ship it")
    await d.system.ended(expired.turn)
    late = await d.roundturn("approvals", "approve", expired.id, "--digest", expired.digest)
    assert late.code == 6
    assert "expired at" in late.err and "was refused" in late.err


async def test_an_answer_after_a_stop_is_code_6(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    stopped = await d.roundturn("stop", row.session, "--json")
    assert (stopped.code, stopped.document["state"]) == (0, "cancelled")
    late = await d.roundturn("approvals", "approve", row.id, "--digest", row.digest)
    assert late.code == 6
    assert "cancelled" in late.err


async def test_an_unknown_a_short_and_a_not_allowed_answer_have_their_codes(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    digest = ("--digest", "0" * 12)
    unknown = await d.roundturn("approvals", "approve", "ap_aaaaaaaa", *digest, "--json")
    assert (unknown.code, unknown.error["type"]) == (2, "usage")
    assert "approvals list" in unknown.error["hint"]
    assert (await d.roundturn("approvals", "approve", "ap_", *digest)).code == 2
    row = await d.asked("ship it")
    closed = {"ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS": "false"}
    refused = await d.roundturn("approvals", "approve", row.id, "--digest", row.digest, "--json", also=closed)
    assert (refused.code, refused.error["type"]) == (4, "refused")


@requirement("P44")
async def test_a_message_that_says_yes_approves_nothing(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    for text in ("yes", "approve", f"approve {row.id}"):
        assert (await d.roundturn("send", row.session, text)).code == 0
    assert (await d.system.pending(row.turn))[0].id == row.id


async def test_an_answer_without_temporal_is_kept_for_the_reconciler(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    away = {"ROUNDTURN_TEMPORAL_ADDRESS": "127.0.0.1:1"}
    done = await d.roundturn("approvals", "approve", row.id, "--digest", row.digest, "--no-wait", also=away)
    assert done.code == 0
    assert "not picked up yet" in done.err
    assert (await d.system.ended(row.turn)).text == "it is shipped"


async def test_on_a_terminal_the_request_is_shown_and_y_approves_it(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    terminal = Terminal(d, "approvals", "approve", row.id)
    await terminal.says("Approve this call? [y/N]")
    for part in ("Run bash?", "what     echo shipped", f"cwd      {d.system.workdir}", "rule always-ask (platform",
                 "from     assistant", "on expiry", f"{row.digest[:4]} {row.digest[4:8]}"):  # fmt: skip
        assert part in terminal.said, part
    terminal.type("y\n")
    assert await terminal.ended() == 0
    assert "picked up after" in terminal.said
    assert (await d.system.ended(row.turn)).text == "it is shipped"


async def test_on_a_terminal_anything_but_yes_decides_nothing(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    for typed in ("\n", "n\n", "\x04"):
        terminal = Terminal(d, "approvals", "approve", row.id)
        await terminal.says("[y/N]")
        terminal.type(typed)
        assert await terminal.ended() == 1
        assert "nothing was decided" in terminal.said
    assert len(await d.system.pending(row.turn)) == 1


@requirement("P124")
async def test_ctrl_c_at_the_prompt_leaves_with_130_and_decides_nothing(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    terminal = Terminal(d, "approvals", "approve", row.id)
    await terminal.says("[y/N]")
    terminal.process.send_signal(signal.SIGINT)
    assert await terminal.ended() == 130
    assert len(await d.system.pending(row.turn)) == 1


async def test_on_a_terminal_a_refusal_asks_for_its_reason(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    terminal = Terminal(d, "approvals", "deny", row.id)
    await terminal.says("Why not?")
    terminal.type("wrong tag\n")
    assert await terminal.ended() == 0
    found: Any = await d.system.client.store.approvals.read(row.id)
    assert (found.state, found.note) == ("denied", "wrong tag")


async def test_on_a_terminal_the_list_is_a_table_with_short_ids(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    row = await d.asked("ship it")
    terminal = Terminal(d, "approvals", "list", "--color", "never")
    assert await terminal.ended() == 0
    assert row.id[:11] in terminal.said and row.id not in terminal.said
    assert "23 h (" in terminal.said
    assert "\x1b[" not in terminal.said


async def test_what_hides_in_the_arguments_is_visible_to_who_decides(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "echo ok\r\x1b[2Krm -rf \u202etxt.\u200b"})), step(text="x")))  # fmt: skip
    row = await d.asked("ship it")
    terminal = Terminal(d, "approvals", "show", row.id)
    assert await terminal.ended() == 0
    assert r"echo ok\r\x1b[2Krm -rf \u202etxt.\u200b" in terminal.said


async def test_a_request_is_told_by_its_command_alone_in_lists_and_beside_a_run(desk: OpenDesk) -> None:
    d = await desk(
        scenario("ship", step(("bash", {"command": "ls -la", "timeout_s": 120})), step(text="shipped"))
    )
    running = d.roundturn.start("run", "ship")
    await running.says("▲ bash  ls -la   waits for a person")
    (item,) = (await d.roundturn("approvals", "list", "--json")).document["items"]
    listed = await d.roundturn("approvals", "list")
    assert listed.out.split("\t")[2:4] == ["bash", "ls -la"]
    await d.roundturn("approvals", "approve", item["approval_id"], "--digest", item["digest"])
    assert "120" not in (await running.ended()).err


def test_the_states_that_can_be_asked_for_are_those_of_an_approval() -> None:
    assert get_args(StateChoice) == (*get_args(State), "all")


@requirement("P131", "M-14")
async def test_who_decides_is_told_in_how_many_places_a_secret_is_hidden(desk: OpenDesk) -> None:
    key = "scripted-key"  # what the worker was given for its model
    command = f"TOKEN={key} ./payload.sh --password={key}; secret=a1b2c3d4e5 ./other.sh"
    d = await desk(scenario("ship", step(("bash", {"command": command})), step(text="x")))
    row = await d.asked("ship it")
    shown = command.replace(key, "[secret hidden]")
    document = (await d.roundturn("approvals", "show", row.id, "--json")).document
    assert (document["arguments"]["command"], document["hidden"]) == (shown, 2)
    terminal = Terminal(d, "approvals", "show", row.id)
    await terminal.says("of the exact call: secrets are hidden above, in 2 places")
    assert await terminal.ended() == 0
    assert shown in terminal.said
