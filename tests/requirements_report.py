"""`make requirements`: which items of the catalogue have a test, which are deferred and why, which are open."""

import contextlib
import io
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "requirements.toml"


@dataclass(frozen=True)
class Catalogue:
    """`titles` of all items and field cases by id; `deferred`: the capability that an id waits for."""

    titles: Mapping[str, str]
    deferred: Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """`unknown` and `late` are faults: a mark with an id that is not there, a test for what is said to be deferred."""

    bound: frozenset[str]
    open: tuple[str, ...]
    unknown: tuple[str, ...]
    late: tuple[str, ...]

    @property
    def faulty(self) -> bool:
        return bool(self.unknown or self.late)


def read_catalogue() -> Catalogue:
    data = tomllib.loads(FILE.read_text())
    titles = {id_: item["title"] for id_, item in data["items"].items()} | data["cases"]
    return Catalogue(titles, data["deferred"])


def marked(items: Iterable[pytest.Item]) -> dict[str, set[str]]:
    """The tests of each id."""
    found: dict[str, set[str]] = {}
    for item in items:
        for mark in item.iter_markers("requirement"):
            for id_ in mark.args:
                found.setdefault(id_, set()).add(item.nodeid.split("[")[0])
    return found


def compare(catalogue: Catalogue, marks: Iterable[str]) -> Report:
    bound = frozenset(marks)
    return Report(
        bound=bound & catalogue.titles.keys(),
        open=tuple(id_ for id_ in catalogue.titles if id_ not in bound and id_ not in catalogue.deferred),
        unknown=tuple(sorted(bound - catalogue.titles.keys())),
        late=tuple(sorted(bound & catalogue.deferred.keys())),
    )


class _Collector:
    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def main() -> int:
    collector, said = _Collector(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", str(ROOT / "tests")], [collector]
        )
    if code != pytest.ExitCode.OK:
        sys.stderr.write(f"the tests cannot be collected:\n{said.getvalue()[-4000:]}\n")
        return 1
    catalogue = read_catalogue()
    report = compare(catalogue, marked(collector.items))
    sys.stdout.write("\n".join(_lines(catalogue, report)) + "\n")
    return int(report.faulty)


def _lines(catalogue: Catalogue, report: Report) -> Iterable[str]:
    yield f"{len(catalogue.titles)} items: {len(report.bound)} bound, {len(catalogue.deferred)} deferred, {len(report.open)} open"
    yield ""
    yield "deferred, by what they wait for:"
    for reason, count in sorted(Counter(catalogue.deferred.values()).items()):
        yield f"  {count:3} {reason}"
    if report.open:
        yield ""
        yield "open: no test is bound yet:"
        yield from (f"  {id_:5} {catalogue.titles[id_]}" for id_ in report.open)
    for id_ in report.unknown:
        yield f"FAULT: a test names {id_}, which the catalogue does not have"
    for id_ in report.late:
        yield f"FAULT: {id_} has a test and still waits for {catalogue.deferred[id_]!r}; take it out of [deferred]"


if __name__ == "__main__":
    sys.exit(main())
