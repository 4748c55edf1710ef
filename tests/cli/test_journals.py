"""Several journals as one stream: what belongs to it, in which order, and how it goes on after a failure."""

from collections.abc import Sequence

from gateway.journals import Journals
from roundturn.event import NewEvent, RunEvent
from tests.cli.made_up import LOGS, PARENT, SETTINGS, Story, asking, at, incident
from tests.requirements import requirement


class Journal:
    """What a story has told, page by page."""

    def __init__(self, story: Story) -> None:
        self.story = story

    async def append(self, run: str, events: Sequence[NewEvent]) -> None:
        raise NotImplementedError

    async def read(self, run: str, after: int, limit: int) -> list[RunEvent]:
        return [event for event in self.story.events if event.run == run and event.offset > after][:3]


async def seen(journals: Journals, journal: Journal) -> list[RunEvent]:
    return [event async for event in journals.news(journal)]


@requirement("A-38")
async def test_a_tree_is_read_whole_and_by_time_with_each_run_in_its_order() -> None:
    story = asking()
    found = await seen(Journals(PARENT), Journal(story))
    assert len(found) == len(story.events)
    for run in (PARENT, LOGS, SETTINGS):
        assert [e.offset for e in found if e.run == run] == list(
            range(1, 1 + sum(e.run == run for e in found))
        )
    assert [e.ts for e in found] == sorted(e.ts for e in found)


async def test_a_subagents_events_come_after_the_one_that_names_its_run_whatever_their_times_say() -> None:
    story = Story()
    story.begin(PARENT, 0)
    story.tell(PARENT, 9, "model.replied", usage={})
    story.spawn(2, "0.0", "log_analyst", LOGS)
    story.begin(LOGS, 1)
    found = await seen(Journals(PARENT), Journal(story))
    assert [(e.run, e.type) for e in found][-3:] == [
        (PARENT, "subagent.spawned"), (LOGS, "message.accepted"), (LOGS, "turn.started"),
    ]  # fmt: skip


async def test_who_stops_in_the_middle_goes_on_there_and_the_end_is_the_roots() -> None:
    story = incident()
    journals, journal = Journals(PARENT), Journal(story)
    first = []
    async for event in journals.news(journal):
        first.append(event)
        if len(first) == 7:
            break
    rest = await seen(journals, journal)
    assert [*first, *rest] == await seen(Journals(PARENT), journal)
    story.end(LOGS, 5)
    assert [e.type for e in await seen(journals, journal)] == ["turn.ended", "run.ended"]
    assert not journals.ended
    story.end(PARENT, 6)
    await seen(journals, journal)
    assert journals.ended


async def test_a_run_by_itself_leaves_its_subagents_out() -> None:
    found = await seen(Journals(PARENT, subagents=False, after=2), Journal(incident()))
    assert {e.run for e in found} == {PARENT}
    assert found[0].offset == 3
    assert found[-1].ts == at(2)
