"""Drawings: the figures of the papers, structure and golden text; hostile text; the layout."""

from __future__ import annotations

import doctest
import random
import re
import shlex
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import strategies as st
from tamis.cli import main
from tamis.diagram.conditions import Diagram, diagram_of
from tamis.diagram.draw import mermaid, picture, svg
from tamis.diagram.wording import atom_of, atom_text, text_of
from tamis.drawing.pictures import MOST_NODES
from tamis.errors import SelectorError
from tamis.language import Attribute, Compare, Literal, parse
from tamis.logic import Kind, atoms, reduce
from tamis.logic.atoms import Atom
from tamis.schema import Schema, Type

GOLDEN = Path(__file__).parents[1] / "golden"
XYZ = Schema.of(x=bool, y=bool, z=bool)
FIGURE_1 = ["x AND (y OR z)"]
FIGURE_2 = ["x AND (y OR z)", "NOT x AND (y OR z)", "y OR z"]
FIGURE_4 = ["price < 1500 AND 'IBM' ⊑ company", "price < 1500 AND 'McDonalds' ⊑ company"]


def drawn(selectors, schema=None, semantics="sql", **options) -> Diagram:
    return diagram_of([parse(s) for s in selectors], schema, semantics, **options)


def figure(number: int) -> Diagram:
    """Figures 1 and 2 have plain Boolean variables: total messages over a schema of bools."""
    if number == 4:
        return drawn(FIGURE_4)
    return drawn(FIGURE_1 if number == 1 else FIGURE_2, XYZ, "total")


def questions_of(diagram: Diagram) -> list[str]:
    """The texts of the inner nodes, from the top."""
    return [box.title for n, box in picture(diagram).boxes.items() if n > 1]


# --- the papers ---------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 4])
def test_icse2001_figures(number: int) -> None:
    golden = (GOLDEN / f"figure_{number}.mmd").read_text(encoding="utf-8")
    assert mermaid(figure(number)) == golden


def test_icse2001_figure_1() -> None:
    assert questions_of(figure(1)) == ["x = TRUE", "y = TRUE", "z = TRUE"]


def test_icse2001_figure_2_shares_the_third_function() -> None:
    """Nodes 1 to 6, leaves included; node 3 is the root of y OR z and serves the other two."""
    diagram = figure(2)
    shared = diagram.shared
    assert len(shared) + 2 == 6
    first, second, third = shared.roots.tolist()
    assert (shared.low[first], shared.high[first]) == (0, third)
    assert (shared.low[second], shared.high[second]) == (third, 0)
    roots = [box.caption for box in picture(diagram).boxes.values() if box.kind == "root"]
    assert sorted(roots) == ["Q1", "Q2", "Q3"]


def test_icse2001_figure_4_example_11() -> None:
    diagram = figure(4)
    texts = ["company CONTAINS 'IBM'", "company CONTAINS 'McDonalds'", "price < 1500"]
    assert questions_of(diagram) == texts
    alice, bob = diagram.shared.roots.tolist()
    assert diagram.shared.high[alice] == diagram.shared.high[bob], "the price is asked once"


def test_us7136899_equation_12() -> None:
    """If (X=3) then (if (X=5) then S1 else S2) is: if (X=3) then S2."""
    schema = Schema.of(x=int, s1=bool, s2=bool)
    text = "x = 3 AND (x = 5 AND s1 OR NOT x = 5 AND s2)"
    restricted, plain = (drawn([text], schema, "total", restricting=r) for r in (True, False))
    assert sorted(questions_of(restricted)) == ["s2 = TRUE", "x = 3"]
    assert set(questions_of(plain)) == {"s1 = TRUE", "s2 = TRUE", "x = 3", "x = 5"}


@pytest.mark.parametrize("schema", [None, Schema.of(n=int), Schema.of(n=float)])
def test_icse2001_section_6_equality_decides_an_inequality(schema) -> None:
    assert questions_of(drawn(["n = 10 AND n > 8"], schema)) == ["n = 10"]
    assert len(drawn(["n = 10 AND n > 8"], schema, restricting=False).shared) > 1
    assert drawn(["n = 10 AND n > 18"], schema).shared.roots.tolist() == [0]


# --- texts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "schema", "text"),
    [
        ("price<1500", None, "price < 1500"),
        ("price <= 1500", Schema.of(price=float), "price <= 1500"),
        ("price < 0.1", Schema.of(price=float), "price < 0.1"),
        ("price < -0.5", Schema.of(price=float), "price < -0.5"),
        ("n <= 8", Schema.of(n=int), "n < 9"),
        ("n = 9223372036854775807", None, "n = 9223372036854775807"),
        ("n <= 9223372036854775807", None, "n < 9.223372036854776e+18"),
        ("p <= 1.7976931348623157e308", Schema.of(p=float), "p <= 1.7976931348623157e+308"),
        ("name <= 'b'", None, "name <= 'b'"),
        ("name IN ('b', 'a')", None, "name IN ('a', 'b')"),
        ("t < TIMESTAMP '2000-02-01'", None, "t < TIMESTAMP '2000-02-01'"),
        ("t <= TIMESTAMP '2000-02-01'", None, "t <= TIMESTAMP '2000-02-01'"),
        ("name LIKE 'a%b!_!!c_' ESCAPE '!'", None, "name LIKE 'a%b!_!!c_' ESCAPE '!'"),
        ("name LIKE '%a.b%c%'", None, "name LIKE '%a.b%c%'"),
        ("name MATCHES '^a.*z$'", None, "name MATCHES '^a.*z$'"),
        ("'PC' ⊑ name", None, "name CONTAINS 'PC'"),
        ("name WITHIN 'PC 10'", None, "name WITHIN 'PC 10'"),
        ("flag", None, "flag = TRUE"),
        ("a IS NOT NULL", None, "a IS NOT NULL"),
        ("a < b", None, "a < b"),
        ("a CONTAINS b", None, "a CONTAINS b"),
        ("lower(`odd name`) = 'it''s'", None, "lower(`odd name`) = 'it''s'"),
    ],
)
def test_atoms_as_text(selector: str, schema: Schema | None, text: str) -> None:
    diagram = drawn([selector], schema)
    assert text in [atom_text(diagram, v) for v in range(diagram.shared.atoms)]


def test_the_end_of_time_as_text() -> None:
    last = max(st.TIME_EDGES)
    diagram = diagram_of([Compare(Attribute("t"), "<=", Literal.of(last))])
    assert atom_text(diagram, 0) == "t <= TIMESTAMP '9999-12-31T23:59:59.999999Z'"


def test_the_type_of_a_value_as_words() -> None:
    diagram = drawn(["a >= 1", "b <> 'x'", "f <> TRUE", "t <> TIMESTAMP '2000-01-01'"])
    texts = {atom_text(diagram, v) for v in range(diagram.shared.atoms)}
    assert {"a is a number", "b is a string", "f is a Boolean", "t is a timestamp"} <= texts


@pytest.mark.parametrize("typed", [False, True])
def test_texts_mean_their_atoms(typed: bool) -> None:
    """The text of an atom parses to a condition that reduces to the same atom."""
    rng = random.Random(7)
    seen: set[Kind] = set()
    for _ in range(120):
        schema = st.random_schema(rng) if typed else None
        diagram = diagram_of([st.random_condition(rng, schema) for _ in range(6)], schema)
        for variable in range(diagram.shared.atoms):
            atom = atom_of(diagram, variable)
            if atom.kind is Kind.TYPED or not representable(atom):
                continue
            again = reduce(parse(text_of(atom)), "sql", schema)
            assert set(atoms(again)) == {atom}, text_of(atom)
            seen.add(atom.kind)
    assert seen == set(Kind) - {Kind.TYPED}


def representable(atom: Atom) -> bool:
    """A derived Boolean may be asked for FALSE, which is a NOT and not an atom of its own."""
    return not isinstance(atom.term, Compare) or atom.kind is Kind.MEMBER


# --- hostile text ---------------------------------------------------------------

HOSTILE = (
    '"]-->',
    "</text><script>alert(1)</script>",
    "%%{init: {'theme': 'x'}}%%",
    "&#x;&amp;]]>",
    "a\nb\tc\x01\x7f\u202e\uffff",
    "`#quot;`",
    "click n2 href",
    "𝒳" * 300,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    selector = Compare(Attribute(text), "=", Literal(Type.STRING, text))
    diagram = diagram_of([selector])
    document = ElementTree.fromstring(svg(diagram, [text]))
    tags = {element.tag.split("}")[1] for element in document.iter()}
    assert tags == {"svg", "title", "style", "defs", "marker", "path", "g", "rect", "text"}
    lines = mermaid(diagram, [text]).splitlines()
    assert len(lines) == 1 + 3 + 2 + 2
    for line in lines[1:4]:
        assert re.fullmatch(r'    n\d\["([^"`{}<>\\]|<br/>)*"\](:::\w+)?', line), line


def test_a_long_text_is_whole_in_the_tooltip() -> None:
    diagram = drawn([f"name IN ({', '.join(repr(f'n{i:03}') for i in range(60))})"])
    document = svg(diagram)
    assert "n059" in document
    assert max(len(t) for t in re.findall(r"<text[^>]*>([^<]*)", document)) <= 44


# --- the picture ----------------------------------------------------------------


def test_what_is_too_large_is_refused() -> None:
    many = [f"a{i} = 1" for i in range(MOST_NODES + 1)]
    for draw in (mermaid, svg):
        with pytest.raises(SelectorError, match="401 nodes is too large to be drawn"):
            draw(drawn(many))
    assert mermaid(drawn(many[1:])).count("]:::root") == MOST_NODES


def test_constant_conditions_are_leaves() -> None:
    diagram = drawn(["TRUE", "FALSE", "TRUE"])
    assert mermaid(diagram).splitlines()[1:3] == [
        '    n0["0<br/>Q2"]:::root',
        '    n1["1<br/>Q1, Q3"]:::root',
    ]
    assert "classDef leaf" not in mermaid(diagram)
    assert svg(diagram).count("<rect") == 2


def test_an_empty_diagram_has_no_nodes() -> None:
    assert mermaid(drawn([])) == "flowchart TD\n"
    ElementTree.fromstring(svg(drawn([])))


def test_strata_are_named() -> None:
    wide = " OR ".join(f"(a{i:02} = 1 AND b{i:02} = 1)" for i in range(8))
    diagram = drawn([wide], budget=-32 * 20)
    boxes = picture(diagram).boxes.values()
    tested = {box.title.removeprefix("value of ") for box in boxes if "value of" in box.title}
    assert tested
    assert tested == {box.caption.split()[-1] for box in boxes if "#" in box.caption}
    ElementTree.fromstring(svg(diagram))


@pytest.mark.parametrize("seed", range(4))
def test_layers_and_boxes(seed: int) -> None:
    """Edges go down, one variable to a layer, and no two boxes of a layer touch."""
    rng = random.Random(seed)
    diagram = diagram_of([st.random_condition(rng, depth=2) for _ in range(6)])
    shown = picture(diagram)
    layer = {n: box.layer for n, box in shown.boxes.items()}
    assert all(layer[source] < layer[target] for source, target, _ in shown.edges)
    texts: dict[int, set[str]] = {}
    for box in shown.boxes.values():
        texts.setdefault(box.layer, set()).add(box.title)
    assert all(len(some) == 1 for some in texts.values() if some != {"0", "1"})
    boxes = [
        [float(element.get(k)) for k in ("y", "x", "width")]
        for element in ElementTree.fromstring(svg(diagram)).iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert len(boxes) == len(shown.boxes) > 5
    boxes.sort()
    for (y, x, width), (other_y, other_x, _) in pairwise(boxes):
        assert y < other_y or x + width < other_x


# --- the page -------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "diagrams.md"


def test_the_page_shows_what_is_true(capfd, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(r"^```mermaid\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert shown[1] == mermaid(figure(4))
    blocks = re.findall(
        r"^```console\n\$ tamis ([^\n]+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 2
    for command, output in blocks:
        assert main(shlex.split(command)) == 0
        assert capfd.readouterr().out == output
    assert (tmp_path / "alerts.svg").exists()
    example = doctest.DocTestParser().get_doctest(text, {}, "diagrams.md", "diagrams.md", 0)
    assert len(example.examples) == 6
    assert doctest.DocTestRunner().run(example).failed == 0
