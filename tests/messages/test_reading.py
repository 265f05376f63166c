"""Files of messages: whole, truncated, empty, and with bad rows."""

import contextlib
import csv
import datetime
import gzip
import io
import json
import math
import os
import random
import threading
from decimal import Decimal
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.errors import InputError, MessageError
from tamis.messages import BadRow, arrow_schema, lookup, read, refuse
from tamis.schema import Schema

UTC = datetime.UTC
TRADE = Schema.of(company=str, price=float, volume=int)


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def read_all(path, **options):
    """(row number, line, row) of every good row, and the bad ones."""
    bad: list[BadRow] = []
    good = []
    for batch in read(path, on_bad=bad.append, **options):
        rows = batch.rows if isinstance(batch.rows, list) else batch.rows.to_pylist()
        assert len(rows) == len(batch)
        good += zip(batch.numbers, batch.lines, rows, strict=True)
    return good, bad


def rows_of(path, **options):
    good, bad = read_all(path, **options)
    assert bad == []
    return [row for _, _, row in good]


# --- JSON lines ----------------------------------------------------------------


def test_json_lines_without_a_schema_are_mappings(tmp_path):
    path = write(tmp_path / "m.jsonl", '{"a": 1, "b": {"c": [1, "x"]}}\n\n \t\r\n{"a": null}\r\n{}')
    good, bad = read_all(path)
    assert good == [(0, 1, {"a": 1, "b": {"c": [1, "x"]}}), (1, 4, {"a": None}), (2, 5, {})]
    assert bad == []


def test_json_lines_with_a_schema_are_typed_columns(tmp_path):
    text = (
        '{"company": "IBM", "price": 5, "volume": 7.0, "more": 1}\n{"price": NaN, "volume": -1}\n'
    )
    (batch,) = read(write(tmp_path / "m.jsonl", text), schema=TRADE, on_bad=refuse)
    assert batch.rows.schema == pa.schema(
        {"company": pa.string(), "price": pa.float64(), "volume": pa.int64()}
    )
    assert batch.rows.to_pylist() == [
        {"company": "IBM", "price": 5.0, "volume": 7},
        {"company": None, "price": None, "volume": -1},
    ]


JSON_FAULTS = {
    '{"company": "IBM"': "broken JSON at column 18",
    "": "",
    "[1]": "expected a JSON object, found an array",
    "17": "expected a JSON object, found a number",
    "null": "expected a JSON object, found null",
    '{"company": "IBM"} {}': "more text after the value",
    '{"company": 5}': "company = 5 is not of type string",
    '{"price": "5"}': "price = '5' is not of type double",
    '{"volume": 1.5}': "volume = 1.5 is not of type int",
    '{"volume": true}': "volume = True is not of type int",
    '{"volume": 1e400}': "volume = inf is not of type int",
    '{"volume": 9223372036854775808}': "64 bits",
    '{"volume": ' + "9" * 5000 + "}": "thousands of digits",
    '{"company": "\\ud800"}': "lone surrogate",
    '{"x": ' + "[" * 70 + "]" * 70 + "}": "nested deeper than 64",
    '{"x": ' + "[" * 200_000: "nested deeper than 64",
    '{"x": "\1"}': "broken JSON",
    "\0": "broken JSON",
}


def test_bad_json_rows_are_reported_and_the_others_read(tmp_path):
    faults = [text for text, reason in JSON_FAULTS.items() if reason]
    good_line = '{"company": "IBM", "price": 1.0, "volume": 1}'
    lines = [line for text in faults for line in (good_line, text)] + [good_line]
    path = write(tmp_path / "m.jsonl", "\n".join(lines))
    good, bad = read_all(path, schema=TRADE)
    assert [(number, line) for number, line, _ in good] == [
        (i, i + 1) for i in range(0, len(lines), 2)
    ]
    by_line = {b.line: b for b in bad}
    assert sorted(by_line) == list(range(2, len(lines), 2))
    for i, text in enumerate(faults):
        found = by_line[2 * i + 2]
        assert JSON_FAULTS[text] in found.reason
        assert found.file == str(path)
        assert len(str(found)) < 500


def test_invalid_utf8_is_a_bad_row(tmp_path):
    path = write(tmp_path / "m.jsonl", b'{"a": "x"}\n{"a": "\xff"}\n{"a": "\xc3\xa9"}\n')
    good, bad = read_all(path)
    assert [row for _, _, row in good] == [{"a": "x"}, {"a": "é"}]
    assert [(b.line, b.reason) for b in bad] == [(2, "invalid UTF-8 at byte 8")]


def test_a_huge_int_is_bad_only_where_it_is_needed(tmp_path):
    path = write(tmp_path / "m.jsonl", '{"a": 1, "b": {"c": 18446744073709551616}}\n{"a": 2}')
    good, bad = read_all(path)
    assert [row["a"] for _, _, row in good] == [2]
    assert [(b.line, b.reason) for b in bad] == [
        (1, "b.c = 18446744073709551616 does not fit into 64 bits")
    ]
    assert [row["a"] for row in rows_of(path, columns=["a"])] == [1, 2]
    assert [row["a"] for row in rows_of(path, schema=Schema.of(a=int))] == [1, 2]
    assert read_all(path, columns=["b.c"])[1] == bad
    path = write(tmp_path / "m.csv", "a,b\n1,18446744073709551616\n2,3\n")
    good, bad = read_all(path)
    assert ([row["a"] for _, _, row in good], [b.line for b in bad]) == ([2], [2])
    assert [row["a"] for row in rows_of(path, columns=["a"])] == [1, 2]
    assert [row["a"] for row in rows_of(path, schema=Schema.of(a=int))] == [1, 2]


def test_special_numbers_of_json(tmp_path):
    text = '{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e400, "e": -0.0, "f": 1E2}'
    path = write(tmp_path / "m.jsonl", text)
    schema = Schema.of(a=float, b=float, c=float, d=float, e=float, f=float)
    expected = [None, math.inf, -math.inf, math.inf, -0.0, 100.0]
    (typed,) = rows_of(path, schema=schema)
    assert list(typed.values()) == expected
    (plain,) = rows_of(path)
    assert [lookup(plain, name) for name in "abcdef"] == expected
    assert math.copysign(1, typed["e"]) == -1


def test_a_long_line_is_a_bad_row(tmp_path):
    path = write(tmp_path / "m.jsonl", '{"a": 1}\n{"a": "' + "x" * 1000 + '"}\n{"a": 2}\n')
    good, bad = read_all(path, max_line=100)
    assert [row for _, _, row in good] == [{"a": 1}, {"a": 2}]
    assert [(b.line, b.reason) for b in bad] == [(2, "the line is longer than 100 bytes")]
    assert len(bad[0].text) < 130


def test_brackets_inside_strings_are_not_depth(tmp_path):
    row = {"a": "[" * 100 + '"{\\' * 50, "b": [[]] * 100}
    assert rows_of(write(tmp_path / "m.jsonl", json.dumps(row))) == [row]


# --- CSV -----------------------------------------------------------------------


def test_csv_by_looking(tmp_path):
    text = "i,d,b,s,zip,e\n5,-1.5,TRUE,a b,007,\n-9223372036854775808,1e3,false,+5,1_000,\n"
    assert rows_of(write(tmp_path / "m.csv", text)) == [
        {"i": 5, "d": -1.5, "b": True, "s": "a b", "zip": "007"},
        {"i": -(2**63), "d": 1000.0, "b": False, "s": "+5", "zip": "1_000"},
    ]


def test_csv_with_a_schema(tmp_path):
    schema = Schema.of({"n.i": int, "d": float, "s": str, "b": bool, "t": "timestamp", "gone": str})
    text = "n.i,d,s,b,t,more\n 5 ,inf,007, True ,2000-02-01T02:00:00+02:00,x\n,nan,,,,\n"
    # The second row is all empty but for NaN.
    assert rows_of(write(tmp_path / "m.csv", text), schema=schema) == [
        {
            "n.i": 5,
            "d": math.inf,
            "s": "007",
            "b": True,
            "t": datetime.datetime(2000, 2, 1, tzinfo=UTC),
            "gone": None,
        },
        dict.fromkeys(schema),
    ]


def test_quoted_csv_fields_may_span_lines(tmp_path):
    path = write(tmp_path / "m.csv", 'a,b\r\n"x, ""y""\r\nz",1\r\n\r\n  ,\r\np,2\r\n')
    good, bad = read_all(path)
    assert good == [(0, 2, {"a": 'x, "y"\r\nz', "b": 1}), (1, 6, {"a": "p", "b": 2})]
    assert bad == []


def test_bad_csv_rows_are_reported_and_the_others_read(tmp_path):
    rows = [
        (b"IBM,1.5,1", ""),
        (b"IBM,1.5", "expected 3 fields, found 2"),
        (b"IBM,1.5,1,1", "expected 3 fields, found 4"),
        (b'"I"BM,1.5,1', "expected after"),
        (b"\xff,1.5,1", "invalid UTF-8 at byte 1"),
        (b"IBM,cheap,1", "price = 'cheap' is not of type double"),
        (b"IBM,1_0,1", "price = '1_0' is not of type double"),
        (b"IBM,1.5,1.5", "volume = '1.5' is not of type int"),
        (b"IBM,1.5,9223372036854775808", "64 bits"),
        (b'"IBM,1.5,1', "unexpected end of data"),
        (b"Dell,2.5,2", ""),
    ]
    path = write(tmp_path / "m.csv", b"company,price,volume\n" + b"\n".join(r for r, _ in rows))
    good, bad = read_all(path, schema=TRADE)
    assert [(number, line, row["company"]) for number, line, row in good] == [
        (0, 2, "IBM"),
        (10, 12, "Dell"),
    ]
    reasons = {b.line: b.reason for b in bad}
    assert sorted(reasons) == list(range(3, 12))
    for line, (_, reason) in enumerate(rows, 2):
        assert reason in reasons.get(line, "")


def test_csv_without_rows_or_without_anything(tmp_path):
    assert rows_of(write(tmp_path / "a.csv", "")) == []
    assert rows_of(write(tmp_path / "b.csv", "a,b\n")) == []
    with pytest.raises(InputError, match="names column 'a' twice"):
        rows_of(write(tmp_path / "c.csv", "a,b,a\n1,2,3\n"))


# --- XML -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "<a>1</a> <b>x\n y</b>\n\n\n<a>2</a>\n",
        "<message><a>1</a><b>x y</b></message><message><a>2</a></message>",
        '<?xml version="1.0"?>\r\n<messages>\r\n<message>\r\n\r\n<a>1</a><b>x y</b></message>\r\n'
        "<message>\r\n<a>2</a>\r\n</message>\r\n</messages>\r\n",
    ],
)
def test_xml_files(tmp_path, text):
    path = write(tmp_path / "m.xml", text)
    assert rows_of(path) == [{"a": 1, "b": "x y"}, {"a": 2}]
    assert rows_of(path, schema=Schema.of(a=float, b=str)) == [
        {"a": 1.0, "b": "x y"},
        {"a": 2.0, "b": None},
    ]


def test_bad_xml_messages_are_reported_and_the_others_read(tmp_path):
    path = write(
        tmp_path / "m.xml",
        b"<message><a>1</a></message>\n<message><a>2</message>\n<message><a>\xff</a></message>\n"
        b"<message>\n<a>x</a></message>\n<message><a>3</a></message>\n<message><a>4",
    )
    good, bad = read_all(path, schema=Schema.of(a=int))
    assert [(number, line, row["a"]) for number, line, row in good] == [(0, 1, 1), (4, 6, 3)]
    assert [b.line for b in bad] == [2, 3, 4, 7]


# --- Parquet and Arrow ---------------------------------------------------------


def arrow_bytes(table, stream=False):
    sink = io.BytesIO()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_bytes(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def columnar(tmp_path, table):
    yield write(tmp_path / "m.parquet", parquet_bytes(table))
    yield write(tmp_path / "m.arrow", arrow_bytes(table))
    yield write(tmp_path / "m.arrows", arrow_bytes(table, stream=True))
    yield write(tmp_path / "m.parquet.gz", gzip.compress(parquet_bytes(table)))


MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
TYPES = {
    "i8": (pa.array([1, None], pa.int8()), [1, None]),
    "u32": (pa.array([2**32 - 1, 0], pa.uint32()), [2**32 - 1, 0]),
    "u64": (pa.array([2**63 - 1, 0], pa.uint64()), [2**63 - 1, 0]),
    "f32": (pa.array([0.5, math.nan], pa.float32()), [0.5, None]),
    "f64": (pa.array([-math.inf, None], pa.float64()), [-math.inf, None]),
    "dec": (pa.array([Decimal("19.99"), Decimal("-0.10")], pa.decimal128(10, 2)), [19.99, -0.1]),
    "big": (pa.array(["é", ""], pa.large_string()), ["é", ""]),
    "view": (pa.array(["é", ""], pa.string_view()), ["é", ""]),
    "dict": (pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "bool": (pa.array([True, None]), [True, None]),
    "day": (
        pa.array([datetime.date(2000, 2, 1), None]),
        [datetime.datetime(2000, 2, 1, tzinfo=UTC), None],
    ),
    "s": (
        pa.array([-1, 0], pa.timestamp("s")),
        [
            datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
            datetime.datetime(1970, 1, 1, tzinfo=UTC),
        ],
    ),
    "ns": (pa.array([-1, None], pa.timestamp("ns")), [MOMENT, None]),
    "zone": (pa.array([-1, None], pa.timestamp("us", "Europe/Paris")), [MOMENT, None]),
    "struct": (pa.array([{"x": {"y": 1}}, {"x": None}]), None),
    "list": (pa.array([[1], []]), [[1], []]),
}


def test_columns_of_every_type(tmp_path):
    table = pa.table({name: column for name, (column, _) in TYPES.items()})
    expected = {name: values for name, (_, values) in TYPES.items()}
    expected["struct.x.y"] = [1, None]
    del expected["struct"]
    for path in columnar(tmp_path, table):
        (batch,) = read(path, on_bad=refuse)
        assert batch.rows.to_pydict() == expected, path
        kinds = {f.name: f.type for f in batch.rows.schema}
        assert kinds["ns"] == kinds["day"] == kinds["s"] == pa.timestamp("us", "UTC")
        assert kinds["i8"] == kinds["u64"] == pa.int64()
        assert kinds["f32"] == kinds["dec"] == pa.float64()
        assert kinds["big"] == kinds["view"] == kinds["dict"] == pa.string()


def test_structs_are_read_where_they_are_asked_for(tmp_path):
    table = pa.table({"a": pa.array([{"b": {"c": 1}}, {"b": None}, None])})
    for path in columnar(tmp_path, table):
        (batch,) = read(path, columns=["a", "a.b", "a.b.c"], on_bad=refuse)
        assert batch.rows.to_pydict() == {
            "a": [{"b": {"c": 1}}, {"b": None}, None],
            "a.b": [{"c": 1}, None, None],
            "a.b.c": [1, None, None],
        }


def test_values_that_do_not_fit_are_bad_rows(tmp_path):
    table = pa.table(
        {
            "u": pa.array([1, 2**63, 3, 4, 5], pa.uint64()),
            "d": pa.array(
                [Decimal("1.5"), Decimal(2), Decimal("123456789012345678.9"), None, Decimal(5)]
            ),
            "t": pa.array([0, 0, 0, 2**50, 0], pa.timestamp("s")),
            "s": pa.array([b"a", b"b", b"c", b"d", b"\xff"]).view(pa.string()),
        }
    )
    for path in columnar(tmp_path, table):
        good, bad = read_all(path)
        assert [(number, row["u"]) for number, _, row in good] == [(0, 1)]
        assert [b.line for b in bad] == [1, 2, 3, 4]
        assert bad[0].place == "row"
        assert bad[0].reason == "u = 9223372036854775808 does not fit into 64 bits"
        assert bad[1].reason == "d = 123456789012345678.9 has more digits than a double"
        assert bad[2].reason.endswith("is outside the years 1 to 9999")
        assert bad[3].reason == "s holds invalid UTF-8"
        assert len(read_all(path, columns=["u"])[0]) == 4


def test_a_schema_chooses_and_converts_columns(tmp_path):
    schema = Schema.of({"i": float, "d": int, "s.x": str, "gone": bool, "null": int})
    table = pa.table(
        {
            "i": [2**53 + 1, None, 3],
            "d": [5.0, None, 1.5],
            "s": [{"x": "a", "y": 1}, None, {"x": "b", "y": 2}],
            "null": pa.nulls(3),
        }
    )
    for path in columnar(tmp_path, table):
        good, bad = read_all(path, schema=schema)
        assert [row for _, _, row in good] == [
            {"i": 2.0**53, "d": 5, "s.x": "a", "gone": None, "null": None},
            dict.fromkeys(schema),
        ]
        assert [(b.line, b.reason) for b in bad] == [(2, "d = 1.5 is not of type int")]
        with pytest.raises(InputError, match="column i is of type int64, the schema says string"):
            read_all(path, schema=Schema.of(i=str))


def test_only_the_needed_columns_are_there(tmp_path):
    table = pa.table({"a": [1], "a.b": [2], "s": [{"x": 1, "y.z": 2}], "t.u": [{"v": 1}]})
    for path in columnar(tmp_path, table):
        assert rows_of(path) == [{"a": 1, "a.b": 2, "s.x": 1}]
        assert rows_of(path, columns=["a.b", "s.x", "none"]) == [{"a.b": 2, "s.x": 1}]
        assert rows_of(path, columns=["s"]) == [{"s": {"x": 1, "y.z": 2}}]
        (batch,) = read(path, columns=["none"], on_bad=refuse)
        assert (batch.rows.num_rows, batch.rows.num_columns, len(batch)) == (1, 0, 1)


def test_a_file_that_is_none_is_an_input_error(tmp_path):
    whole = parquet_bytes(pa.table({"a": list(range(1000))}))
    arrow = arrow_bytes(pa.table({"a": list(range(1000))}))
    stream = arrow_bytes(pa.table({"a": list(range(1000))}), stream=True)
    for name, data in [
        ("a.parquet", b""),
        ("b.parquet", b"no parquet"),
        ("c.parquet", whole[: len(whole) // 2]),
        ("d.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("e.arrow", b""),
        ("f.arrow", arrow[: len(arrow) // 2]),
        ("g.arrow", b"{}"),
        ("h.arrows", stream[: len(stream) // 2]),
        ("i.jsonl.gz", gzip.compress(b"{}\n" * 1000)[:-20]),
        ("j.jsonl.gz", b"\x1f\x8b" + b"\0" * 20),
        ("k.jsonl", b"\xff\xfe{\0}\0"),
    ]:
        path = write(tmp_path / name, data)
        with pytest.raises(InputError) as caught:
            read_all(path)
        assert str(caught.value).startswith(f"{path}: "), name


def test_columns_of_one_name_are_an_input_error(tmp_path):
    column = pa.array([1])
    twice = pa.StructArray.from_arrays([column, column], names=["x", "x"])
    for table in (
        pa.Table.from_arrays([column, column], names=["a", "a"]),
        pa.Table.from_arrays([twice], names=["a"]),
    ):
        with pytest.raises(InputError, match="two columns have the same name"):
            read_all(write(tmp_path / "m.arrow", arrow_bytes(table)))


def test_a_batch_of_only_bad_rows_is_empty(tmp_path):
    path = write(tmp_path / "m.jsonl", '{"volume": "x"}\n')
    good, bad = read_all(path, schema=TRADE)
    assert (good, len(bad)) == ([], 1)
    table = pa.table({"u": pa.array([2**64 - 1], pa.uint64())})
    good, bad = read_all(write(tmp_path / "m.parquet", parquet_bytes(table)))
    assert (good, len(bad)) == ([], 1)


def test_a_damaged_parquet_page_is_an_input_error(tmp_path):
    data = bytearray(parquet_bytes(pa.table({"a": [str(i) for i in range(10_000)]})))
    data[4:400] = bytes(396)
    with pytest.raises(InputError):
        read_all(write(tmp_path / "m.parquet", bytes(data)))


# --- every format --------------------------------------------------------------


def test_missing_files_and_unknown_formats(tmp_path):
    with pytest.raises(InputError, match=r"gone\.jsonl: No such file"):
        read_all(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="directory"):
        read_all(tmp_path)
    with pytest.raises(InputError, match="format 'xls' is unknown: choose auto"):
        read_all(tmp_path / "x", format="xls")


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv", "m.xml", "m"])
def test_an_empty_file_has_no_messages(tmp_path, name):
    for data in (b"", b"\n\r\n", b"\xef\xbb\xbf"):
        assert rows_of(write(tmp_path / name, data)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", '{"a": 1}\r\n{"a": 2}\r\n'),
        ("m.csv", "a\r\n1\r\n2\r\n"),
        ("m.xml", "<a>1</a>\r\n\r\n<a>2</a>"),
    ],
)
def test_a_byte_order_mark_gzip_and_a_bare_name_change_nothing(tmp_path, name, text):
    data = b"\xef\xbb\xbf" + text.encode()
    for path in (
        write(tmp_path / name, data),
        write(tmp_path / (name + ".gz"), gzip.compress(data)),
        write(tmp_path / "bare", data),
    ):
        assert rows_of(path) == [{"a": 1}, {"a": 2}]
        assert rows_of(path, schema=Schema.of(a=float)) == [{"a": 1.0}, {"a": 2.0}]


def test_batches_carry_row_numbers_and_progress(tmp_path):
    lines = [json.dumps({"a": i}) if i % 7 else "bad" for i in range(100)]
    path = write(tmp_path / "m.jsonl", "\n".join(lines))
    batches = list(read(path, batch_rows=10, on_bad=lambda bad: None))
    assert [len(b) for b in batches] == [10] * 8 + [5]
    for b in batches:
        assert [row["a"] for row in b.rows] == list(b.numbers)
        assert [n + 1 for n in b.numbers] == list(b.lines)
    assert batches[-1].progress == 1.0
    table = pa.table({"a": range(100)})
    path = write(tmp_path / "m.parquet", parquet_bytes(table))
    batches = list(read(path, batch_rows=30, on_bad=refuse))
    assert [b.numbers[0] for b in batches] == [0, 30, 60, 90]
    assert [b.progress for b in batches] == [0.3, 0.6, 0.9, 1.0]


def test_refuse_stops_at_the_first_bad_row(tmp_path):
    path = write(tmp_path / "m.jsonl", "{}\noops\n{}\n")
    with pytest.raises(MessageError, match=r"m\.jsonl, line 2: broken JSON at column 1.*\n  oops"):
        list(read(path, on_bad=refuse))


def test_standard_input(monkeypatch):
    table = pa.table({"a": [1, 2]})
    for data in (
        b'{"a": 1}\n{"a": 2}',
        b"a\n1\n2\n",
        parquet_bytes(table),
        arrow_bytes(table, stream=True),
        gzip.compress(b'{"a":1}\n{"a":2}'),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        assert rows_of("-") == [{"a": 1}, {"a": 2}]


# --- the same messages through every format ------------------------------------

SCHEMA = Schema.of(
    {"i": int, "d": float, "s": str, "b": bool, "t": "timestamp", "n.s": str, "n.i": int}
)
INTS = [0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.0, -0.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, 19.99]
STRINGS = ["IBM", "naïve 🙂", 'a "b", c', "<&>", "17", "true", "null", "x" * 500, "a'b\\"]
DAY = datetime.datetime(2000, 2, 1, tzinfo=UTC)
TIMES = [DAY, DAY.replace(year=1), DAY + datetime.timedelta(microseconds=1), DAY.replace(year=9999)]


def random_messages():
    chance = random.Random(7)
    choices = {
        "i": INTS,
        "d": DOUBLES,
        "s": STRINGS,
        "b": [True, False],
        "t": TIMES,
        "n.s": STRINGS,
        "n.i": INTS,
    }
    messages = [
        {name: chance.choice([None, *values]) for name, values in choices.items()}
        for _ in range(200)
    ]
    assert any(all(v is not None for v in m.values()) for m in messages)
    return [m if any(v is not None for v in m.values()) else {**m, "i": 1} for m in messages]


def nested(message):
    tree = {k: v for k, v in message.items() if v is not None}
    inner = {k[2:]: tree.pop(k) for k in list(tree) if k.startswith("n.")}
    return {**tree, "n": inner} if inner else tree


def as_json(messages):
    return "\n".join(json.dumps(nested(m), default=lambda t: t.isoformat()) for m in messages)


def as_csv(messages):
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(SCHEMA)
    writer.writerows(
        [
            ""
            if v is None
            else v.isoformat()
            if hasattr(v, "isoformat")
            else repr(v)
            if type(v) is float
            else v
            for v in m.values()
        ]
        for m in messages
    )
    return out.getvalue()


def as_xml(messages):
    def element(name, value):
        if isinstance(value, dict):
            inner = "".join(element(k, v) for k, v in value.items())
        else:
            inner = escape(value.isoformat() if hasattr(value, "isoformat") else str(value))
        return f"<{name}>{inner}</{name}>"

    return "".join(element("message", nested(m)) + "\n" for m in messages)


def as_table(messages):
    kinds = {
        "i": pa.int64(),
        "d": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.struct({"s": pa.string(), "i": pa.int64()}),
    }
    return pa.Table.from_pylist([nested(m) for m in messages], schema=pa.schema(kinds))


@pytest.mark.parametrize("with_schema", [True, False])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("m.jsonl", as_json),
        ("m.jsonl.gz", lambda ms: gzip.compress(as_json(ms).encode())),
        ("m.csv", as_csv),
        ("m.xml", as_xml),
        ("m.parquet", lambda ms: parquet_bytes(as_table(ms))),
        ("m.arrow", lambda ms: arrow_bytes(as_table(ms))),
        ("m.arrows", lambda ms: arrow_bytes(as_table(ms), stream=True)),
    ],
)
def test_every_format_gives_the_same_values(tmp_path, name, make, with_schema):
    messages = random_messages()
    path = write(tmp_path / name, make(messages))
    # Without a schema text does not say what is a timestamp; CSV and XML say less still.
    if with_schema:
        names = list(SCHEMA)
    elif name.startswith(("m.jsonl", "m.csv", "m.xml")):
        names = ["i", "b", "n.i"] + (["s", "d", "n.s"] if "json" in name else [])
    else:
        names = list(SCHEMA)
    rows = rows_of(path, schema=SCHEMA if with_schema else None)
    found = [[repr(lookup(row, n)) for n in names] for row in rows]
    assert found == [[repr(m[n]) for n in names] for m in messages]


def test_the_schema_of_a_table_is_found():
    assert arrow_schema(as_table(random_messages()).schema) == Schema.of(
        {"i": int, "d": float, "s": str, "b": bool, "t": "timestamp", "n.s": str, "n.i": int}
    )


# --- hostile files -------------------------------------------------------------


def damaged(data, chance):
    """The data with some bytes changed, or cut short, or something else altogether."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randrange(200))
    if kind < 0.3:
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 10)):
        byte = chance.choice([chance.randrange(256), *b'"\n<{,', 0, 255])
        changed[chance.randrange(len(data))] = byte
    return bytes(changed)


@pytest.mark.parametrize(
    "name", ["m.jsonl", "m.csv", "m.xml", "m.parquet", "m.arrow", "m.arrows", "m.jsonl.gz"]
)
def test_damaged_files_give_bad_rows_or_an_input_error(tmp_path, name):
    messages = random_messages()[:20]
    table = as_table(messages)
    whole = {
        "m.jsonl": as_json(messages).encode(),
        "m.csv": as_csv(messages).encode(),
        "m.xml": as_xml(messages).encode(),
        "m.parquet": parquet_bytes(table),
        "m.arrow": arrow_bytes(table),
        "m.arrows": arrow_bytes(table, stream=True),
        "m.jsonl.gz": gzip.compress(as_json(messages).encode()),
    }[name]
    chance = random.Random(3)
    read_through, refused = 0, []
    for schema in (None, SCHEMA):
        for _ in range(60):
            path = write(tmp_path / name, damaged(whole, chance))
            try:
                good, bad = read_all(path, schema=schema)
            except InputError as error:
                refused.append(str(error))
                continue
            numbers = [number for number, _, _ in good]
            assert numbers == sorted(set(numbers))
            assert all(len(str(b)) < 1000 for b in bad)
            read_through += 1
    assert read_through > 0
    assert all(error.startswith(f"{path}: ") for error in refused)


# --- files that are larger than they look ----------------------------------------


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_what_must_be_held_in_memory_is_bounded(format, packed, tmp_path, monkeypatch):
    """A few kilobytes of gzip may stand for gigabytes, and a pipe may never end."""
    start = b"PAR1" if format == "parquet" else b"ARROW1\0\0"
    path = tmp_path / f"bomb.{format}"
    data = start + bytes(1 << 20)
    monkeypatch.setattr("tamis.messages.columnar.MAX_IN_MEMORY", 1 << 16)
    if packed:
        path = path.with_name(path.name + ".gz")
        path.write_bytes(gzip.compress(data))
        with pytest.raises(InputError, match="up to 65,536 bytes: unpack it"):
            list(read(path, on_bad=refuse))
        return
    os.mkfifo(path)
    threading.Thread(target=_feed, args=(path, data), daemon=True).start()
    with pytest.raises(InputError, match="up to 65,536 bytes: unpack it"):
        list(read(path, on_bad=refuse))


def _feed(path, data):
    with contextlib.suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:
        for start in range(0, len(data), 4096):
            pipe.write(data[start : start + 4096])
