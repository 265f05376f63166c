"""The flat XML documents of ICSE 2001."""

import datetime

import pytest

from bounded import bounded
from tamis.errors import MessageError
from tamis.messages import parse_xml
from tamis.schema import Schema

SALES = Schema.of(company=str, product=str, price=float)
TOTAL = """
<company> IBM </company>
<product> PC AT, 20 Mhz, 256 KB RAM
</product>
<price> 5000 </price>
"""
PARTIAL = """
<company> Future Inc. </company>
<product> 100 GHz Super PC </product>
"""


def test_icse2001_example_3_the_total_message():
    expected = {"company": "IBM", "product": "PC AT, 20 Mhz, 256 KB RAM", "price": 5000.0}
    found = parse_xml(TOTAL, SALES)
    assert found == expected
    assert type(found["price"]) is float


def test_icse2001_example_3_the_message_without_a_price():
    expected = {"company": "Future Inc.", "product": "100 GHz Super PC"}
    assert parse_xml(PARTIAL, SALES) == expected


def test_without_a_schema_types_are_seen():
    found = parse_xml("<i> 5 </i><d>-1.5e3</d><b>true</b><s>5 a</s><z>007</z><n>nan</n><e/>")
    assert found == {"i": 5, "d": -1500.0, "b": True, "s": "5 a", "z": "007", "n": "nan", "e": ""}
    assert [type(v) for v in found.values()] == [int, float, bool, str, str, str, str]


def test_a_wrapper_and_a_declaration_are_accepted():
    text = f'\ufeff<?xml version="1.0" encoding="UTF-8"?>\n<message id="1">{TOTAL}</message>\n'
    assert parse_xml(text, SALES) == parse_xml(TOTAL, SALES)


def test_runs_of_blanks_are_folded_and_references_are_read():
    found = parse_xml("<a>\n x \t\r\n y&amp;z &#65;</a><b><![CDATA[ <c> ]]></b>")
    assert found == {"a": "x y&z A", "b": "<c>"}


def test_a_no_break_space_is_no_blank():
    assert parse_xml("<a>\xa0x\xa0\xa0y</a>") == {"a": "\xa0x\xa0\xa0y"}


def test_nested_elements_have_dotted_names():
    assert parse_xml("<a><b>1</b><c><d>2</d></c></a><e>3</e>") == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_the_schema_types_every_kind():
    schema = Schema.of(i=int, d=float, s=str, b=bool, t=datetime.datetime, gone=float)
    found = parse_xml("<i>+05</i><d>1</d><s>17</s><b>FALSE</b><t>2000-02-01</t><gone/>", schema)
    moment = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
    assert found == {"i": 5, "d": 1.0, "s": "17", "b": False, "t": moment, "gone": None}


BOMB = "<!DOCTYPE m [<!ENTITY a 'x'>" + "".join(
    f"<!ENTITY a{i} '&a{i - 1 if i else ''};&a{i - 1 if i else ''};'>" for i in range(30)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB + "]><m>&a29;</m>", "refused"),
        ('<!DOCTYPE m SYSTEM "file:///etc/passwd"><m/>', "refused"),
        ('<m><!ENTITY x SYSTEM "file:///etc/passwd"></m>', "refused"),
        ("<a>&x;</a>", "undefined entity"),
        ("<a>" * 100_000, "nested deeper than 16"),
        ("<a>1", "broken XML"),
        ("<a>1</b>", "broken XML"),
        ("</tamis><tamis>", "broken XML"),
        ("<a>\0</a>", "broken XML"),
        ("<a>\ud800</a>", "surrogate"),
        ("text", "outside"),
        ("<a>1</a>text", "outside"),
        ("<a>x<b>1</b></a><c/>", "both text and elements"),
        ("<a>1</a><a>2</a>", "twice"),
        ("<price>cheap</price>", "price = 'cheap' is not of type double"),
        ("<i>9223372036854775808</i>", "64 bits"),
        (f"<i>{'9' * 10_000}</i>", "64 bits"),
        (f"<i>{'x' * 2**24}</i>", "longer than"),
    ],
    ids=lambda value: value[:30].encode("ascii", "backslashreplace").decode(),
)
def test_hostile_or_broken_xml_is_a_message_error(text, reason):
    with bounded(20), pytest.raises(MessageError, match=reason) as caught:
        parse_xml(text, SALES)
    assert len(str(caught.value)) < 300
