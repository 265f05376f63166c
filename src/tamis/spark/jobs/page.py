"""The report of a run: one page of HTML that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from tamis.engine.choosing.claims import MIN_POINTS
from tamis.spark.jobs.page_charts import area, bars, short

_LONGEST = 400  # letters of a selector or a reason that are shown
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_STEPS = (1, 2, 5)
_FINE = 1_000  # matches up to which these are the steps

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6878; --paper: #fbfaf7; --card: #fff;
  --edge: #e2ded4; --main: #2f6f8f; --apart: #b9b3a5; --bad: #a83232; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b5; --paper: #14181e;
  --card: #1c222b; --edge: #313a47; --main: #6fb7d6; --apart: #596273; --bad: #f08a8a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 0 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); } .bad { color: var(--bad); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(45%, 200px), 1fr));
  gap: .75rem; margin: 1rem 0; }
.figures div, section { background: var(--card); border: 1px solid var(--edge);
  border-radius: 10px; padding: .8rem 1rem; min-width: 0; }
.figures b { display: block; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr));
  gap: .75rem; }
section { margin-bottom: .75rem; } svg { width: 100%; height: auto; display: block; }
svg[aria-label] text { fill: var(--soft); font-size: 12.5px; text-anchor: middle; }
svg[aria-label] text.end { text-anchor: end; }
.line { stroke: var(--edge); fill: none; }
.bar { fill: var(--main); } .apart { fill: var(--apart); }
.area { fill: var(--main); fill-opacity: .3; stroke: var(--main); stroke-width: 1.5; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;
  border-top: 1px solid var(--edge); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 500; border-top: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.wide { width: 45%; } td.number + td.wide { width: 65%; }
td:first-child + td.wide:last-child { width: 75%; }
.tall td:first-child { min-width: 9rem; }
table:not(.tall) td:first-child { overflow-wrap: normal; }
code { font: .85rem/1.45 ui-monospace, monospace; white-space: pre-wrap; }
bdi { unicode-bidi: isolate; }
@media (max-width: 600px) { .tall thead { display: none; }
  .tall tr { display: flex; flex-wrap: wrap;
  justify-content: space-between; border-top: 1px solid var(--edge); padding: .35rem 0; }
  .tall td { border: 0; padding: 0 .5rem 0 0; } .tall td.wide { width: 100%; } }
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page tells. `counts` are the matches of each subscription that matched at all."""

    title: str
    when: str
    figures: Sequence[tuple[str, str]]
    settings: Sequence[tuple[str, str]]
    pace: Sequence[tuple[float, float]]  # where a step of time begins, and its rows per second
    step: float
    counts: Sequence[int] | None
    never: int
    silent: Sequence[tuple[str, str]]  # some of those that never matched: id, selector
    costly: Sequence[tuple[str, str, int]]  # asked of every message: id, selector, predicates
    costly_in_all: int
    top: Sequence[tuple[str, str, int]]  # id, selector, matches
    refused: Sequence[tuple[str, str, str]]  # id, selector, reason
    refused_in_all: int
    bad_rows: int


def page(facts: Facts) -> str:
    body = "\n".join(
        [
            f"<h1>{shown(facts.title)}</h1>",
            f'<p class="soft">{shown(facts.when)}</p>',
            figure_cards(facts.figures),
            f'<div class="charts">{_pace(facts)}{_spread(facts)}</div>',
            _top(facts),
            _silent(facts),
            _costly(facts),
            _problems(facts),
            section("The run", table((), ((n, v) for n, v in facts.settings))),
        ]
    )
    return document(facts.title, body)


def document(title: str, body: str) -> str:
    """A page that needs nothing else."""
    # Whatever a selector says, this page loads nothing and runs nothing.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""


def spread(counts: Iterable[int], never: int) -> list[tuple[str, int]]:
    """How many subscriptions matched 0, 1, 2 to 4, 5 to 9, 10 to 19, ... messages.

    Where one matched 1,000 or more: 0, 1 to 9, 10 to 99, ...
    """
    found = list(counts)
    most = max(found, default=0)
    # So many bars that their labels have room: only 1, 10, 100, ... where there are more.
    steps = _STEPS if most < _FINE else (1,)
    edges = [1]
    while edges[-1] <= most:
        size = 10 ** (len(edges) // len(steps))
        edges.append(steps[len(edges) % len(steps)] * size)
    named = [("0", never)]
    for low, high in pairwise(edges):
        named.append((short(low), sum(low <= count < high for count in found)))
    return named


def figure_cards(figures: Sequence[tuple[str, str]]) -> str:
    cards = (
        f'<div><b>{shown(value)}</b><span class="soft">{shown(name)}</span></div>'
        for name, value in figures
    )
    return f'<div class="figures">{"".join(cards)}</div>'


def _pace(facts: Facts) -> str:
    if not facts.pace:
        return section("Rows per second", '<p class="soft">No row was matched.</p>')
    drawn = area(facts.pace, facts.step, "rows per second over time", "seconds")
    return section("Rows per second", drawn)


def _spread(facts: Facts) -> str:
    title = "Matches per subscription"
    if facts.counts is None:
        told = "Not counted: only the results match and deliveries know which subscription it was."
        return section(title, f'<p class="soft">{told}</p>')
    drawn = bars(
        spread(facts.counts, facts.never), title, "matches: so many, or more up to the next bar"
    )
    return section(title, drawn)


def _top(facts: Facts) -> str:
    if facts.counts is None:
        return ""
    rows = ((id, f"{count:,}", selector) for id, selector, count in facts.top)
    heads = ("subscription", "matches", "selector")
    return section("Top subscriptions", table(heads, rows))


def _silent(facts: Facts) -> str:
    if facts.counts is None:
        return ""
    some = _some(facts.silent, facts.never)
    told = f'<p class="soft">{facts.never:,} subscriptions never matched{some}.</p>'
    listed = table(("subscription", "selector"), facts.silent) if facts.silent else ""
    return section("Never matched", told + listed)


def _costly(facts: Facts) -> str:
    if not facts.costly_in_all:
        return ""
    some = _some(facts.costly, facts.costly_in_all)
    told = (
        f'<p class="soft">{facts.costly_in_all:,} subscriptions{some} are evaluated for every '
        "message, because none of their predicates is used as an index. An equality is, if the "
        f"subscriptions name at least {MIN_POINTS} different values of its attribute; a range or a "
        "text is, if few messages are expected to satisfy it.</p>"
    )
    rows = ((id, f"{count:,}", selector) for id, selector, count in facts.costly)
    return section(
        "Asked of every message", told + table(("subscription", "predicates", "selector"), rows)
    )


def _some(shown: Sequence[object], all: int) -> str:
    return f", of which {len(shown):,} are shown" if len(shown) < all else ""


def _problems(facts: Facts) -> str:
    if not facts.refused_in_all and not facts.bad_rows:
        return section("Problems", '<p class="soft">None.</p>')
    told = ""
    if facts.bad_rows:
        told += f'<p class="bad">{facts.bad_rows:,} bad rows: see the column _error.</p>'
    if facts.refused_in_all:
        rest = facts.refused_in_all - len(facts.refused)
        more = f", of which {len(facts.refused):,} are shown" if rest else ""
        told += f'<p class="bad">{facts.refused_in_all:,} bad selectors{more}:</p>'
        told += table(("subscription", "reason", "selector"), _reordered(facts.refused))
    return section("Problems", told)


def _reordered(refused: Iterable[tuple[str, str, str]]) -> Iterable[tuple[str, str, str]]:
    return ((id, reason, selector) for id, selector, reason in refused)


def section(title: str, inside: str) -> str:
    return f"<section><h2>{shown(title)}</h2>{inside}</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    numbers = {i for i, head in enumerate(heads) if head in ("matches", "predicates")}
    body = "".join(f"<tr>{''.join(_cells(row, heads, numbers))}</tr>" for row in rows)
    if not heads:
        return f"<table><tbody>{body}</tbody></table>"
    kinds = (' class="number"' if i in numbers else "" for i in range(len(heads)))
    head = "".join(f"<th{kind}>{shown(h)}</th>" for kind, h in zip(kinds, heads, strict=True))
    return f'<table class="tall"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cells(row: Sequence[str], heads: Sequence[str], numbers: set[int]) -> Iterable[str]:
    for i, value in enumerate(row):
        code = i < len(heads) and heads[i] in ("selector", "reason")
        cell = f"<code>{shown(value)}</code>" if code else shown(value)
        kind = ' class="number"' if i in numbers else ' class="wide"' if code else ""
        yield f"<td{kind}>{cell}</td>"


def shown(value: str) -> str:
    """Text as text: no tag, no control sign, and no sign that turns the direction around it."""
    cut = value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
    return f"<bdi>{escape(_CONTROL.sub('�', cut))}</bdi>"
