"""The tables of lookups: from mappings and files, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.errors import FlowError, InputError, TamisError
from tamis.flow import Lookup, parse_flow, read_flow, tables
from tamis.schema import Type

NAMES = {"Names": Lookup("Names", Type.STRING, Type.STRING)}
RATES = {"Rates": Lookup("Rates", Type.INT, Type.DOUBLE)}


def test_mappings_and_files_give_the_same(tmp_path):
    (tmp_path / "rates.csv").write_text("value,key,note\n0.5,1,a\n,2,b\n3,-7,c\n")
    table = pa.table({"key": [1, 2, -7], "value": [0.5, None, 3.0]})
    pq.write_table(table, tmp_path / "rates.parquet")
    expected = {"Rates": {1: 0.5, -7: 3.0}}
    assert tables(RATES, {"Rates": {1: 0.5, 2: None, -7: 3}}) == expected
    assert tables(RATES, {"Rates": tmp_path / "rates.csv"}) == expected
    assert tables(RATES, {"Rates": str(tmp_path / "rates.parquet")}) == expected


def test_paths_in_a_flow_start_where_the_flow_is(tmp_path):
    (tmp_path / "names.csv").write_text("key,value\nIBM,Int\n")
    lookup = Lookup("Names", Type.STRING, Type.STRING, "names.csv")
    assert tables({"Names": lookup}, folder=tmp_path) == {"Names": {"IBM": "Int"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key,value\na,1\na,2\n", "the key 'a' is there twice"),
        ("code,value\na,1\n", "has no column key; it has code, value"),
        ("key,name\na,1\n", "has no column value"),
        ("key,value\n,1\n", "a key is undefined"),
        ("", "has no column key"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    (tmp_path / "names.csv").write_text(text)
    with pytest.raises(FlowError, match=message):
        tables(NAMES, {"Names": tmp_path / "names.csv"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"key,value\na,1\na,2\n", "the key 'a' is there twice"),
        (b"code,value\na,1\n", "has no column key; it has code, value"),
        (b"key,value\nM\xfcnchen,1\n", "UTF-8"),
        (b"key,val\xfce\na,1\n", "UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_told_at_the_line_of_the_lookup(tmp_path, data, message):
    if data is not None:
        (tmp_path / "names.csv").write_bytes(data)
    flow = parse_flow("space S(n: string)\n\nlookup Names(string) -> string from 'names.csv'\n")
    with pytest.raises(FlowError, match=message) as raised:
        tables(flow.lookups, folder=tmp_path, text=flow.text)
    assert raised.value.line == 3
    assert str(raised.value).startswith("line 3, lookup Names: ")
    assert "names.csv" in raised.value.what


def test_a_flow_that_is_not_utf8_names_the_line(tmp_path):
    (tmp_path / "a.flow").write_bytes("# Züge\r\nspace S(n: int)\r\n# Z".encode() + b"\xfcge\n")
    with pytest.raises(InputError, match=r"a\.flow: line 3 is not UTF-8"):
        read_flow(tmp_path / "a.flow")


def test_a_wrong_type_is_refused(tmp_path):
    (tmp_path / "rates.csv").write_text("key,value\none,1\n")
    with pytest.raises(FlowError, match=r"lookup Rates: .*line 2: key = 'one' is not of type int"):
        tables(RATES, {"Rates": tmp_path / "rates.csv"})
    with pytest.raises(FlowError, match="lookup Rates: key = 'one' is not of type int"):
        tables(RATES, {"Rates": {"one": 1.0}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "lookup Names: it has no table"),
        ({"Gone": {}}, "the flow declares no lookup Gone; it has Names"),
        ({"Names": "gone.csv"}, "gone.csv: No such file"),
        ({"Names": "names.json"}, "No such file|CSV or a Parquet"),
    ],
)
def test_a_lookup_needs_its_table(given, message):
    with pytest.raises(TamisError, match=message):
        tables(NAMES, given)
