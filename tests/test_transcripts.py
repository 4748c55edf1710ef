"""What activities keep of a transcript is never more than what can no longer change."""

from activities.transcripts import KEPT_SESSIONS, Transcripts
from roundturn.message import AskedCall, Entry
from roundturn.store import Conversation, OpenStep
from tests.requirements import requirement

CALL = AskedCall(provider_id="", name="t", arguments="{}")


def opened(
    entries: list[Entry], results: dict[str, str], *, session: str = "s_x", generation: int = 0
) -> OpenStep:
    return OpenStep(None, True, session, generation, "digest", Conversation(tuple(entries), results))


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
    messages = transcripts.heard(opened([entry(1)], {}, generation=1), transcripts.known("s_x"), "prompt")
    assert [message["content"] for message in messages] == ["prompt", "text 1"]
    assert transcripts.known("s_x").generation == 1


def test_only_the_most_recent_transcripts_are_kept() -> None:
    transcripts = Transcripts()
    for n in range(KEPT_SESSIONS + 1):
        transcripts.heard(opened([entry(1)], {}, session=f"s_{n}"), transcripts.known(f"s_{n}"), "prompt")
    assert transcripts.known("s_0").seq == 0
    assert transcripts.known(f"s_{KEPT_SESSIONS}").seq == 1
