"""Files of subscriptions."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.errors import InputError
from tamis.messages import read_subscriptions, refuse


def read_all(path, on_bad=refuse, **options):
    return [
        (*pair, line)
        for some in read_subscriptions(path, on_bad, **options)
        for pair, line in zip(some.pairs, some.lines, strict=True)
    ]


def test_json_lines(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"id": "a", "selector": "x = 1", "more": 1}\n\n{"id": -5, "selector": ""}\n')
    assert read_all(path) == [("a", "x = 1", 1), (-5, "", 3)]


def test_csv_ids_are_strings(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('selector,more,id\n"x IN (1,\n2)",,007\n,,true\n')
    assert read_all(path) == [("007", "x IN (1,\n2)", 2), ("true", "", 4)]


@pytest.mark.parametrize("ids", [["a", "b"], [1, 2**63 - 1]])
def test_parquet(tmp_path, ids):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": ids, "selector": ["x = 1", ""], "more": [[], []]}), path)
    assert read_all(path) == [(ids[0], "x = 1", 0), (ids[1], "", 1)]
    assert read_all(path, batch_rows=1) == read_all(path)


def test_bad_rows_are_reported(tmp_path):
    path = tmp_path / "s.jsonl"
    rows = [
        '{"id": "a", "selector": "x = 1"}',
        '{"selector": "x = 1"}',
        '{"id": null, "selector": "x = 1"}',
        '{"id": true, "selector": "x = 1"}',
        '{"id": 1.0, "selector": "x = 1"}',
        '{"id": 9223372036854775808, "selector": "x = 1"}',
        '{"id": "\\ud800", "selector": "x = 1"}',
        '{"id": "b"}',
        '{"id": "b", "selector": 5}',
        "x = 1",
        '{"id": "c", "selector": "x = 1"}',
    ]
    path.write_text("\n".join(rows))
    bad = []
    assert read_all(path, bad.append) == [("a", "x = 1", 1), ("c", "x = 1", 11)]
    assert [b.line for b in bad] == list(range(2, 11))


def test_nulls_in_parquet_are_bad_rows(tmp_path):
    path = tmp_path / "s.parquet"
    table = pa.table({"id": ["a", None, "c"], "selector": ["", "", None]})
    pq.write_table(table, path)
    bad = []
    assert read_all(path, bad.append) == [("a", "", 0)]
    assert [(b.line, b.place) for b in bad] == [(1, "row"), (2, "row")]


def test_files_that_hold_no_subscriptions(tmp_path):
    (tmp_path / "a.csv").write_text("id,rule\n1,x\n")
    pq.write_table(pa.table({"selector": ["a"]}), tmp_path / "b.parquet")
    (tmp_path / "c.xml").write_text("<id>1</id><selector/>")
    for name, what in (("a.csv", "selector"), ("b.parquet", "id"), ("c.xml", "JSON lines, CSV")):
        with pytest.raises(InputError, match=rf"{name}: .*{what}"):
            read_all(tmp_path / name)
    (tmp_path / "empty.jsonl").write_text("")
    assert read_all(tmp_path / "empty.jsonl") == []
