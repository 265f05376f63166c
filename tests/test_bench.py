"""The workloads are what they say, and all who do the same work agree."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oracle
from tamis.language import Compare, Text, attributes, parse

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import charts, diagrams, hostile, peers, report
from bench.experiments import EXPERIMENTS
from bench.measure import in_own_process, machine, peer_rate
from bench.workloads import general, icse, mixed, rules, stock

pytestmark = pytest.mark.slow


def oracle_counts(conditions, table, semantics="sql", schema=None):
    rows = table.to_pylist()
    return [sum(oracle.matches(c, row, semantics, schema) for c in conditions) for row in rows]


# --- workloads ---------------------------------------------------------------


def test_icse_has_the_208_atoms_of_the_paper():
    assert len(set(icse.ATOMS)) == 208
    assert all(isinstance(parse(atom), Compare | Text) for atom in icse.ATOMS)
    assert {name: kind.type.value for name, kind in icse.SCHEMA.items()} == {
        **dict.fromkeys(["i1", "i2", "i3"], "int"),
        **dict.fromkeys(["d1", "d2", "d3"], "double"),
        **dict.fromkeys(["s1", "s2", "s3", "s4"], "string"),
    }


def test_icse_queries_have_the_averages_of_the_paper():
    distinct, operators = icse.averages(icse.queries(20_000))
    assert distinct == pytest.approx(7.6, abs=0.1)
    assert operators == pytest.approx(7.7, abs=0.1)


def test_icse_atoms_of_a_query_are_atoms():
    assert {atom for text in icse.queries(500) for atom in icse.atoms_of(text)} <= set(icse.ATOMS)


@pytest.mark.parametrize("density", icse.DENSITIES)
def test_icse_messages_have_their_density(density):
    table = icse.messages(4_000, density)
    defined = 1 - sum(column.null_count for column in table.columns) / (4_000 * 10)
    assert defined == pytest.approx(density, abs=0.01)


def test_every_icse_atom_holds_for_some_messages_and_not_for_others():
    bitmaps = peers.Bitmaps(icse.messages(2_000))
    share = [bitmaps.counts([parse(atom)]).mean() for atom in icse.ATOMS]
    assert min(share) > 0
    assert max(share) < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: icse.queries(50, seed),
        lambda seed: list(stock.alerts(50, seed=seed).texts()),
        lambda seed: list(stock.equality_alerts(50, seed=seed).texts()),
        lambda seed: general.conditions(50, seed),
        lambda seed: list(mixed.rules(50, seed).texts()),
        lambda seed: rules.texts(rules.rules(50, 400, seed)),
        lambda seed: icse.messages(50, 0.5, seed).to_pylist(),
        lambda seed: stock.trades(50, zipf=True, seed=seed).to_pylist(),
        lambda seed: general.messages(50, seed=seed).to_pylist(),
        lambda seed: rules.events(50, rules.rules(50, 400), seed=seed).to_pylist(),
    ],
)
def test_a_seed_fixes_the_workload(make):
    assert make(3) == make(3)
    assert make(3) != make(4)


def test_a_larger_icse_set_starts_with_the_smaller():
    assert icse.queries(100)[:30] == icse.queries(30)


def test_zipf_prefers_few_symbols():
    largest = {}
    for zipf in (False, True):
        names = stock.alerts(20_000, zipf=zipf).symbol
        largest[zipf] = np.unique(names, return_counts=True)[1].max()
    assert largest[False] < 20
    assert largest[True] > 2_000


def test_general_conditions_parse_and_some_are_wide():
    conditions = [parse(text) for text in general.conditions(100)]
    assert {name for c in conditions for name in attributes(c)} == set(general.SCHEMA)
    assert len(general.SCHEMA) == 30
    atoms = [text.count(" OR ") for text in general.conditions(100)]
    assert max(atoms) > 150
    assert sum(" NOT " in text or text.startswith("NOT") for text in general.conditions(100)) > 30


def test_general_conditions_hold_for_some_messages_and_not_for_others():
    conditions = [parse(text) for text in general.conditions(30)]
    counts = oracle_counts(conditions, general.messages(40))
    assert 0.02 < np.mean(counts) / 30 < 0.8


def test_mixed_rules_are_rare_but_not_too_rare_and_fit_a_table():
    rules = mixed.rules(300)
    conditions = [parse(text) for text in rules.texts()]
    assert {name for c in conditions for name in attributes(c)} == set(icse.SCHEMA)
    assert 0.002 < np.mean(oracle_counts(conditions, icse.messages(60))) / 300 < 0.1
    for bounds, row in zip(rules.bounds, rules.table().to_pylist(), strict=True):
        given = {mixed.COLUMNS[c]: v for c, v in row.items() if c != "id" and v is not None}
        assert given == {(name, op): value for name, op, value in bounds}


# --- detection rules ---------------------------------------------------------


@pytest.fixture(scope="module")
def detection():
    return rules.rules()


def test_rules_have_the_promised_shape(detection):
    parts = [p for rule in detection for p in (*rule.parts, *rule.exceptions)]
    patterns = [p for p in parts if p.op != "MATCHES"]
    assert len(detection) == 3_000
    assert len(parts) - len(patterns) == pytest.approx(200, abs=1)
    assert sum(len(p.patterns) for p in patterns) == pytest.approx(26_000, abs=20)
    longest = max(rules.texts(detection), key=len)
    assert longest.count("CONTAINS") + 1 == 4_400
    assert len(longest) == pytest.approx(350_000, rel=0.02)
    terms = [np.prod([float(len(p.patterns)) for p in r.parts if not p.every]) for r in detection]
    assert 4e10 in terms
    assert len(rules.ATTRIBUTES) == 30


def test_written_hits_are_hits_and_others_are_not(detection):
    small = [rule for rule in detection if len(rule.text()) < 20_000][:400]
    conditions = [parse(rule.text()) for rule in small]
    hits = oracle_counts(conditions, rules.events(40, small, hits=1.0))
    assert np.mean(np.array(hits) > 0) > 0.9
    assert np.mean(oracle_counts(conditions, rules.events(40, small, hits=0.0))) == 0


def test_events_leave_much_undefined_and_have_command_lines(detection):
    table = rules.events(1_000, detection)
    undefined = sum(column.null_count for column in table.columns) / (1_000 * 30)
    assert undefined > 0.5
    length = pc.min_max(pc.utf8_length(rules.events(1_000, detection, 0.0)["command_line"])).as_py()
    assert length["min"] >= 20
    assert 300 < length["max"] <= 400


# --- peers -------------------------------------------------------------------


@pytest.mark.parametrize("density", [1.0, 0.5])
@pytest.mark.parametrize("strict", [False, True])
def test_bitmaps_and_eval_agree_with_the_oracle_on_icse(density, strict):
    conditions = [parse(text) for text in icse.queries(300)]
    table = icse.messages(60, density)
    expected = oracle_counts(conditions, table, "strict" if strict else "sql", icse.SCHEMA)
    assert 0 < sum(expected) < 60 * 300
    assert peers.Bitmaps(table).counts(conditions, strict=strict).tolist() == expected
    codes = peers.compiled(conditions, strict=strict)
    assert peers.eval_counts(codes, table).tolist() == expected


def test_bitmaps_count_beyond_a_byte():
    always = [parse("i1 < 100")] * 600
    assert peers.Bitmaps(icse.messages(9)).counts(always).tolist() == [600] * 9


@pytest.mark.parametrize("zipf", [False, True])
def test_all_peers_agree_on_stock_alerts(zipf):
    alerts = stock.alerts(400, 20, zipf=zipf)
    table = stock.trades(100, 20, zipf=zipf)
    conditions = [parse(text) for text in alerts.texts()]
    expected = oracle_counts(conditions, table)
    assert sum(expected) > 20
    assert peers.Bitmaps(table).counts(conditions).tolist() == expected
    join = peers.Join(alerts.table())
    assert join.counts(table).tolist() == expected
    pairs = join.pairs(table)
    assert np.bincount(pairs["row"].to_numpy(), minlength=100).tolist() == expected
    for row, id in zip(pairs["row"].to_pylist(), pairs["id"].to_pylist(), strict=True):
        assert oracle.matches(conditions[id], table.slice(row, 1).to_pylist()[0])


def test_the_join_agrees_on_equality_alerts():
    alerts = stock.equality_alerts(2_000, 3)
    table = stock.equality_trades(40, 3)
    expected = oracle_counts([parse(text) for text in alerts.texts()], table)
    assert sum(expected) > 20
    assert peers.Join(alerts.table(), peers.EQUALITIES).counts(table).tolist() == expected


@pytest.mark.skipif(not stock.TICKS.exists(), reason="the real ticks are not here")
def test_tick_alerts_are_set_off_by_some_ticks():
    day = stock.ticks(200_000)
    conditions = [parse(text) for text in stock.tick_alerts(50, day).texts()]
    priced = day.filter(pc.is_valid(day["price"])).slice(0, 300)
    both = pa.concat_tables([priced, day.slice(0, 100)])
    counts = peers.Bitmaps(both).counts(conditions).tolist()
    assert counts == oracle_counts(conditions, both)
    assert sum(counts) > 0


# --- experiments -------------------------------------------------------------


# With Spark, in tests of their own; and networks, whose routers are seventeen processes.
APART = ("spark", "flow", "flow_growth", "native", "network")


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in APART])
def test_experiments_run_at_a_tiny_scale_and_survive_a_round_trip(name, tmp_path):
    check_result(name, EXPERIMENTS[name]("tiny"), tmp_path)


FIGURES = {
    "python": [["stock", 100, 9, 2e6, 1e6, 1.5e6], ["icse", 50, 9, 1e6, None, 4e5]],
    "others": [
        ["simple", 20, "Tamis", 0.5, 4e3, 7],
        ["simple", 20, "equi-join on symbol", 0.2, 8e3, 7],
        ["mixed", 20, "Tamis", 0.5, 3e5, 7],
        ["mixed", 20, "union of filters", 2.0, 10.0, 7],
        ["mixed", 20, "CASE WHEN columns", 9.0, 1e4, 7],
    ],
    "million": [
        [kind, 300, how, 0.1, rate]
        for kind in ("stock", "zipf")
        for how, rate in (("Tamis", 5e5), ("as planned", 1e4), ("broadcast", 2e4))
    ],
    "first": [[100, 1.0, 3.0]],
    "memory": [["pass-through", 2, 5e7, 6e7, 9e7, 5e7], ["match", 2, 15e7, 2e8, 3e8, 2e8]],
    "plain": [["pass-through", 2, 3e7, 6e7, 9e7, 5e7], ["match", 2, 9e7, 2e8, 3e8, 2e8]],
    "growth": [[c, n, 1e6 * c, 2e6 * c] for c in (1, 2) for n in (0, 100, 300)],
}


def test_figures_of_spark_become_tables(monkeypatch, tmp_path):
    """What is measured runs in tests/spark; here the figures are given."""
    from bench.experiments import spark

    monkeypatch.setattr(spark, "apart", lambda *given: {n: FIGURES[n] for n in given[3:]})
    result = spark.run("tiny")
    check_result("spark", result, tmp_path)
    met = {row[0]: (row[3], row[4]) for row in result.tables[0].rows}
    assert met == {
        "match, 100 stock alerts / pass-through": ("0.5", "yes"),
        "counts, 50 ICSE queries / pass-through": ("0.4", "yes"),
        "20 simple rules / equi-join on symbol": ("0.5x", "NO"),
        "20 mixed rules / CASE WHEN columns": ("30x", "yes"),
        "300 stock alerts, uniform / equi-join": ("25x", "yes"),
        "300 stock alerts, Zipf / equi-join": ("25x", "yes"),
        "start to first micro-batch, 100 alerts: median": ("1 s", "yes"),
        "each further Python worker, 300 alerts": ("150 MB", "NO"),
    }


FLOW_FIGURES = {
    "without_subscriptions": [
        ["pass-through", 1.0, 5e6, 9],
        ["by hand, Spark SQL", 2.0, 2.5e6, 9],
        ["flow, rewritten", 2.1, 2.4e6, 9],
        ["flow, arc by arc", 3.0, 1.7e6, 9],
    ],
    "with_subscriptions": [
        [50, "pass-through", 1.0, 7],
        [50, "equi-join by hand", 2.0, 7],
        [50, "flow, rewritten", 3.5, 7],
        [50, "flow, arc by arc", 3.0, 7],
    ],
    "one_query_each": [[100, 10, 90.0, 3.0]],
    "two_sinks": [[2.0, 2.2]],
    "by_paths": [[1, 1.0, 1.0, 1.0, 5], [10, 1.5, 3.0, 3.0, 6]],
    "by_subscriptions": [[10, 1.0], [1000, 1.5]],
    "sharing": [[1, 12, 5, 1.0, 0.9, 0.7, 0.8, 5], [2, 60, 8, 2.0, 1.0, 1.5, 1.2, 5]],
}


PLANS = [
    ["simple", 100, 9, "join", 2.0, 3.0, None, 2.5, 2.0, 4.0],
    ["mixed", 100, 9, "matcher", None, None, 3.0, None, None, 2.0],
    ["simple", 10, 9, "columns", None, None, None, 1.0, None, 4.0],
]


def test_figures_of_plans_become_tables(monkeypatch, tmp_path):
    from bench.experiments import native

    monkeypatch.setattr(native, "apart", lambda *given: {"plans": PLANS})
    result = native.run("tiny")
    check_result("native", result, tmp_path)
    met = {row[0]: (row[3], row[4]) for row in result.tables[0].rows}
    assert met == {
        "match, 100 simple rules / equi-join and filtered arrays": ("1.2x", "aim"),
        "deliveries, 100 simple rules / equi-join": ("1x", "yes"),
        "match, 100 simple rules / equi-join, which drops messages without a match": ("0.8x", "NO"),
        "match, 100 mixed rules / CASE WHEN": ("1.5x", "aim"),
    }


def test_figures_of_flows_become_tables(monkeypatch, tmp_path):
    """What is measured runs in tests/spark; here the figures are given."""
    from bench.experiments import flow

    monkeypatch.setattr(flow, "_apart", lambda scale: FLOW_FIGURES)
    result = flow.run("tiny")
    check_result("flow", result, tmp_path)
    met = {row[0]: (row[3], row[4]) for row in result.tables[0].rows}
    assert met == {
        "flow / the same by hand": ("1.05x", "yes"),
        "50 subscriptions / pass-through": ("3.5x", "NO"),
        "50 subscriptions / equi-join by hand": ("1.75x", "yes"),
        "100 subscriptions, faster than one query each": ("30x", "aim"),
        "50 subscriptions, rewritten / arc by arc": ("1.17x", "NO"),
        "two sinks / one": ("1.1x", "aim"),
    }


def test_growth_of_flows_becomes_a_table(monkeypatch, tmp_path):
    """What is measured runs in tests/spark; here the figures are given."""
    from bench.experiments import flow_growth

    costs = {True: 14.0, False: 16.0}
    monkeypatch.setattr(flow_growth, "flow_cpu", lambda text, counted: costs[counted])
    result = flow_growth.run("full")
    check_result("flow_growth", result, tmp_path)
    assert [row[3:] for row in result.tables[0].rows] == [("14 CPU-s", "yes"), ("16 CPU-s", "NO")]
    assert [row[:4] for row in result.tables[1].rows] == [
        ["one arc", 3, 1, 1],
        ["seven spaces", 7, 8, 16],
        ["5 arcs", 5, 5, 10],
        ["20 arcs", 12, 20, 124],
        ["100 arcs", 52, 100, 620],
    ]


def test_the_cost_of_a_command_includes_processes_that_outlive_it():
    from bench.experiments.flow_growth import command_cpu

    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    assert in_own_process(command_cpu, [sys.executable, "-c", leave]) >= 0.5


def check_result(name, result, tmp_path):
    assert result.name == name
    assert result.tables
    for table in result.tables:
        assert table.rows
        assert {len(row) for row in table.rows} <= {len(table.columns)}
    report.save(result, machine(), "tiny", tmp_path)
    loaded, measured_on = report.load(tmp_path / f"{name}.json")
    assert measured_on == machine()
    assert report.page([(loaded, measured_on)]) == report.page([(result, machine())])
    for chart in loaded.charts:
        assert charts.draw(chart, tmp_path).read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("goal", "shown"),
    [
        (report.Goal("a", 10, 100, 100.0, "x"), ("a", "≥ 10x", "100x", "100x", "aim")),
        (report.Goal("a", 10, None, 99.0), ("a", "≥ 10", "-", "99", "yes")),
        (report.Goal("a", 10, 100, 9.9), ("a", "≥ 10", "100", "9.9", "NO")),
        (report.Goal("a", 8, 3, 9.0, " s", at_most=True), ("a", "≤ 8 s", "3 s", "9 s", "NO")),
        (report.Goal("a", 8, 3, 8.0, " s", at_most=True), ("a", "≤ 8 s", "3 s", "8 s", "yes")),
        (report.Goal("a", 8, 3, 2.0, " s", at_most=True), ("a", "≤ 8 s", "3 s", "2 s", "aim")),
    ],
)
def test_goals_say_whether_they_are_met(goal, shown):
    assert goal.row() == shown


def test_a_quick_peer_gets_all_messages_and_a_slow_one_few(monkeypatch):
    monkeypatch.setattr("bench.measure._ENOUGH", 0.4)
    table, given = pa.table({"x": range(100_000)}), []
    peer_rate(lambda part: given.append(len(part)), table)
    assert given[0] == 512
    assert given[-1] == 100_000
    given.clear()

    def slow(part):
        given.append(len(part))
        start = time.process_time()
        while time.process_time() - start < len(part) * 0.002:
            pass

    rate = peer_rate(slow, table, least=64)
    assert given[-1] < 500
    assert rate == pytest.approx(500, rel=0.2)


def test_charts_are_the_same_every_time(tmp_path):
    chart = report.Chart("c", "t", "x", "y", {"a": [(1.0, 2.0), (10.0, 3.0)]})
    first = charts.draw(chart, tmp_path).read_bytes()
    assert charts.draw(chart, tmp_path).read_bytes() == first


def test_results_name_no_host_and_no_path():
    assert set(machine()) - {"pyspark"} == {
        "cpus",
        "architecture",
        "python",
        "duckdb",
        "msgspec",
        "numba",
        "numpy",
        "pyarrow",
    }


def test_printed_diagram_means_what_the_queries_mean():
    conditions = [parse(text) for text in icse.queries(40)]
    shared = diagrams.printed(conditions)
    table = icse.messages(20)
    atoms = [parse(atom) for atom in icse.ATOMS]
    for row, expected in zip(table.to_pylist(), oracle_counts(conditions, table), strict=True):
        truth = [oracle.matches(atom, row) for atom in atoms]
        assert sum(walk(shared, root, truth) for root in shared.roots) == expected


def walk(shared, n, truth):
    while n > 1:
        n = (shared.high if truth[shared.test[n]] else shared.low)[n]
    return bool(n)


def test_bad_peers_do_not_stop_good_callers(capsys):
    """A small dose of `python -m bench.faults hostile`, which measures with 1,000 of each."""
    hostile.hostile(connections=8, calls=8)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"8 {kind} over {protocol}" for kind in hostile.KINDS for protocol in hostile.PROTOCOLS
    ]
