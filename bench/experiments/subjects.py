"""One subject against very many subject filters."""

from __future__ import annotations

from bench import progress
from bench.measure import cpu_seconds, timed
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import packets
from tamis.pubsub.subjects.subject_index import SubjectIndex

ABOUT = (
    "Which of many subject filters (exchange.symbol.kind, one in ten with a wildcard) match a "
    "subject. One by one is a call for each subject, many is one call for all; all subjects are "
    "different. A scan asks every filter. Rates are subjects per CPU-second on one core."
)
SCALES = {
    "full": ((10, 10_000, 1_000_000), 50_000),
    "quick": ((10, 10_000, 100_000), 10_000),
    "tiny": ((10, 100), 50),
}
_COLUMNS = ("filters", "matches each", "build s", "one by one/s", "many/s", "scan/s")


def run(scale: str) -> Result:
    sizes, asked = SCALES[scale]
    rows = [_row(size, asked) for size in sizes]
    last = rows[-1]
    goals = [
        Goal(f"{last[0]:,} filters: subjects matched, one by one", 200_000, None, last[3], "/s"),
        Goal(f"{last[0]:,} filters: subjects matched, many at once", 200_000, None, last[4], "/s"),
        Goal("slowest size against the fastest", 5, None, _spread(rows), "x", at_most=True),
    ]
    return Result("subjects", ABOUT, [verdicts(goals), Table("Subjects", _COLUMNS, rows)])


def _spread(rows: list[list]) -> float:
    rates = [row[3] for row in rows]
    return max(rates) / min(rates)


def _row(size: int, asked: int) -> list:
    progress.say(f"{size:,} filters")
    filters, subjects = packets.subject_filters(size), packets.subjects(asked, size)
    index: SubjectIndex[int] = SubjectIndex()
    build = timed(lambda: index.add_many(enumerate(filters)))
    few = subjects[: max(1, 2_000_000 // max(size, 2_000))]
    found = [sorted(index.match(subject)) for subject in few]
    assert found[:20] == [
        [i for i, filter in enumerate(filters) if filter.matches(subject)] for subject in few[:20]
    ]
    matched = sum(map(len, index.match_many(subjects))) / asked

    def one_by_one() -> None:
        match = index.match
        for subject in subjects:
            match(subject)

    single = asked / cpu_seconds(one_by_one, 5)
    many = asked / cpu_seconds(lambda: index.match_many(subjects), 5)
    rules = [filter.rule for filter in filters]
    scan = 1 / cpu_seconds(lambda: [rule.matches(subjects[0]) for rule in rules], 2)
    return [size, matched, build, single, many, scan]
