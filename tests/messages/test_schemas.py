"""Schemas from text and files."""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.errors import InputError, SchemaError
from tamis.messages import arrow_schema, read_schema
from tamis.schema import Schema

DAY = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("price:double", Schema.of(price=float)),
        (" price : double , n.i:int,", Schema.of({"price": float, "n.i": int})),
        ("price:double=-1.0,volume:long=5", Schema.of(price=(float, -1.0), volume=(int, 5))),
        ("price:double=3", Schema.of(price=(float, 3.0))),
        ("`odd, name`:string,b:bool=true", Schema.of({"odd, name": str, "b": (bool, True)})),
        ("s:string=a b,t:string='a, ''b'''", Schema.of(s=(str, "a b"), t=(str, "a, 'b'"))),
        ("s:string='',i:int", Schema.of(s=(str, ""), i=int)),
        ("t:timestamp=2000-02-01T00:00:00Z", Schema.of(t=("timestamp", DAY))),
        ("t:timestamp='2000-02-01'", Schema.of(t=("timestamp", DAY))),
        ("a:list<string>,b:map<string,int>", Schema.of(a=list[str], b=dict[str, int])),
    ],
)
def test_schemas_in_text(text, schema):
    assert read_schema(text) == schema


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "write"),
        ("price", "write"),
        ("price double", "write"),
        (":double", "write"),
        ("a:int,,b:int", "write"),
        ("a:int;b:int", "write"),
        ("s:string='open", "write"),
        ("price:money", "choose int, double"),
        ("a:int,a:int", "named twice"),
        ("a:int=x", "a = 'x' is not of type int"),
        ("a:int=", "empty default"),
        ("a:double=nan", "empty default"),
        ("a:int=9223372036854775808", "64 bits"),
        ("t:timestamp=soon", "not a timestamp"),
        ("a:list<list<int>>", "write"),
        ("a:list<money>", "choose int, double"),
        ("a:map<int,string>", "choose int, double"),
    ],
)
def test_a_bad_schema_is_told_with_a_hint(text, what):
    with pytest.raises(SchemaError, match=what):
        read_schema(text)


def test_schemas_in_json_files(tmp_path):
    path = tmp_path / "schema.json"
    spec = {
        "price": "double",
        "company": {"type": "string", "default": ""},
        "n.t": {"type": "timestamp", "default": "2000-02-01"},
    }
    path.write_text("\ufeff" + json.dumps(spec), "utf-8")
    expected = Schema.of({"price": float, "company": (str, ""), "n.t": ("timestamp", DAY)})
    assert read_schema(path) == read_schema(str(path)) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not a JSON schema file"),
        ("[" * 100_000, "not a JSON schema file"),
        ("[]", "expected an object"),
        ('{"a": 5}', "choose int"),
        ('{"a": null}', "choose int"),
        ('{"a": {}}', "choose int"),
        ('{"a": {"type": "int", "standard": 5}}', "unknown settings: standard"),
        ('{"a": {"type": "int", "default": "5"}}', "not of type int"),
        ('{"a": {"type": "timestamp", "default": "soon"}}', "not a timestamp"),
        ('{"a": "int", "a": "double"}', "named twice"),
        ('{"": "int"}', "needs a name"),
    ],
    ids=range(11),
)
def test_bad_json_schemas(tmp_path, text, what):
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=what):
        read_schema(path)


def test_a_missing_schema_file_is_an_input_error(tmp_path):
    for name in ("gone.json", "gone.parquet", "gone.arrow"):
        with pytest.raises(InputError, match=name):
            read_schema(tmp_path / name)


def test_schemas_of_tables(tmp_path):
    table = pa.schema(
        {
            "u": pa.uint8(),
            "f": pa.float16(),
            "d": pa.decimal128(10, 2),
            "s": pa.dictionary(pa.int8(), pa.large_string()),
            "b": pa.bool_(),
            "t": pa.date32(),
            "n": pa.struct(
                {"t": pa.timestamp("ns", "Asia/Tokyo"), "m": pa.struct({"x": pa.int8()})}
            ),
            "n.t": pa.string(),
            "list": pa.list_(pa.int8()),
            "items": pa.list_(pa.struct({"price": pa.float32(), "bytes": pa.binary()})),
            "map": pa.map_(pa.string(), pa.date32()),
            "bytes": pa.binary(),
            "clock": pa.time32("s"),
            "odd.struct": pa.struct({"x": pa.int8()}),
        }
    )
    expected = Schema.of(
        {
            "u": int,
            "f": float,
            "d": float,
            "s": str,
            "b": bool,
            "t": "timestamp",
            "n.t": str,
            "list": list[int],
            "map": dict[str, datetime.datetime],
            "n.m.x": int,
            "items.price": list[float],
        }
    )
    assert arrow_schema(table) == expected
    plain = pa.table({"a": [1], "n": [{"s": "x"}]})
    pq.write_table(plain, tmp_path / "m.parquet")
    with pa.ipc.new_file(tmp_path / "m.arrow", plain.schema) as sink:
        sink.write_table(plain)
    for name in ("m.parquet", "m.arrow"):
        assert read_schema(tmp_path / name) == Schema.of({"a": int, "n.s": str})
