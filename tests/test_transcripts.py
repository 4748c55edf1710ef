"""What activities keep of a transcript is never more than what can no longer change."""

import json

from activities.transcripts import Transcripts
from roundturn.message import AskedCall, Entry
from roundturn.store import Conversation, OpenStep
from tests.requirements import requirement

CALL = AskedCall(provider_id="", name="t", arguments="{}")


def opened(
    entries: list[Entry], results: dict[str, str], *, session: str = "s_x", generation: int = 0
) -> OpenStep:
    return OpenStep(
        None,
        True,
        session,
        f"{session}/1",
        generation,
        "digest",
        "build",
        Conversation(tuple(entries), results),
    )


def entry(seq: int, *, calls: int = 0, step: int = 0) -> Entry:
    role = "assistant" if calls else "user"
    return Entry(seq=seq, role=role, turn="s_x/1", step=step, text=f"text {seq}", calls=(CALL,) * calls)


@requirement("P104")
def test_news_is_added_to_what_is_known_and_gives_the_same_request_as_reading_all() -> None:
    warm, cold = Transcripts(), Transcripts()
    first, second = [entry(1), entry(2, calls=2)], [entry(3, calls=1, step=1)]
    results = {"s_x/1.0.0": "a", "s_x/1.0.1": "b"}
    warm.heard(opened(first, results), warm.known("s_x"), "prompt")
    known = warm.known("s_x")
    assert (known.generation, known.seq) == (0, 2)
    step = warm.heard(opened(second, {"s_x/1.1.0": "c"}), known, "prompt")
    whole = opened(first + second, results | {"s_x/1.1.0": "c"})
    assert step == cold.heard(whole, cold.known("s_x"), "prompt")


def test_a_call_without_its_result_is_not_kept() -> None:
    transcripts = Transcripts()
    transcripts.heard(opened([entry(1), entry(2, calls=1)], {}), transcripts.known("s_x"), "prompt")
    assert transcripts.known("s_x").seq == 0


def test_another_generation_begins_anew() -> None:
    transcripts = Transcripts()
    transcripts.heard(opened([entry(1), entry(2)], {}), transcripts.known("s_x"), "prompt")
    sent = transcripts.heard(opened([entry(1)], {}, generation=1), transcripts.known("s_x"), "prompt")
    assert [message["content"] for message in json.loads(sent)] == ["prompt", "text 1"]
    assert transcripts.known("s_x").generation == 1


@requirement("P104")
def test_a_request_is_the_prompt_and_the_talk_whatever_was_known_of_it() -> None:
    transcripts = Transcripts()
    for seq in (1, 2, 3):
        sent = transcripts.heard(opened([entry(seq)], {}), transcripts.known("s_x"), f"prompt {seq}")
        contents = [message["content"] for message in json.loads(sent)]
        assert contents == [f"prompt {seq}", *(f"text {n}" for n in range(1, seq + 1))]


def test_what_is_kept_of_all_sessions_is_bounded_in_bytes_and_the_oldest_go_first() -> None:
    transcripts = Transcripts(room_bytes=100_000)
    for n in range(20):
        talk = [entry(1).model_copy(update={"text": "x" * 10_000})]
        transcripts.heard(opened(talk, {}, session=f"s_{n}"), transcripts.known(f"s_{n}"), "prompt")
    kept = [transcripts.known(f"s_{n}").seq == 1 for n in range(20)]
    assert kept == [False] * 11 + [True] * 9


def test_a_talk_larger_than_all_the_room_is_still_known_at_its_next_step() -> None:
    transcripts = Transcripts(room_bytes=100)
    transcripts.heard(opened([entry(1)], {}), transcripts.known("s_x"), "prompt")
    assert transcripts.known("s_x").seq == 1
