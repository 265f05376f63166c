"""Drawings of trees and implications: figure 9 as golden text, SVG as a document."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tamis.cli import main
from tamis.drawing import mermaid, svg
from tamis.engine.implications.tree_pictures import picture
from tamis.errors import SelectorError
from tamis.language import parse
from tamis.schema import Schema

HERE = Path(__file__).parent
XYZ = Schema.of(x=int, y=int, z=int)
FIGURE_9 = (
    "(x = 3 AND y > 1 AND y < 4) OR x = 5",
    "(x = 2 AND y = 3) OR (x > 4 AND y > 2) OR z > 4",
)


def drawn(*selectors: str, schema: Schema | None = XYZ, semantics="total"):
    return picture([parse(s) for s in selectors], schema, semantics)


def test_us7136899_figure_9_drawn() -> None:
    assert mermaid(drawn(*FIGURE_9)) == (HERE / "figure_9.mmd").read_text(encoding="utf-8")


def test_svg_has_every_node_line_and_implication() -> None:
    shown = drawn(*FIGURE_9)
    root = ElementTree.fromstring(svg(shown))
    name = "{http://www.w3.org/2000/svg}"
    kinds = [path.get("class") for path in root.iter(f"{name}path")]
    assert len(list(root.iter(f"{name}rect"))) == len(shown.boxes) == 24
    assert kinds.count("implies") == len(shown.links) == 2
    inner = sum(box.kind != "leaf" for box in shown.boxes.values())
    assert kinds.count("low") == kinds.count(None) == inner


def test_hostile_texts_stay_texts() -> None:
    shown = drawn("s = '\"]<script>&#'", "s CONTAINS '<'", schema=None, semantics="sql")
    assert "<script>" not in svg(shown)
    assert "<script>" not in mermaid(shown)
    ElementTree.fromstring(svg(shown))


def test_the_command_draws_implications(capsys, tmp_path) -> None:
    options = ["--schema", "x:int,y:int,z:int", "--semantics", "total"]
    assert main(["draw", "--implications", *FIGURE_9, *options]) == 0
    assert capsys.readouterr().out == (HERE / "figure_9.mmd").read_text(encoding="utf-8")
    file = tmp_path / "two.svg"
    assert main(["draw", "--implications", *FIGURE_9, *options, "--output", str(file)]) == 0
    assert "2 implications" in file.read_text(encoding="utf-8")


def test_one_tree_has_no_implications(capsys) -> None:
    assert main(["draw", "--implications", "x = 1"]) == 2
    assert "two selectors or more" in capsys.readouterr().err


def test_large_trees_are_not_drawn() -> None:
    wide = " AND ".join(f"(x = {i} OR y = {i})" for i in range(40))
    with pytest.raises(SelectorError, match="too large to be drawn"):
        drawn(wide, "x = 1")


def test_the_page_on_implications_is_true(tmp_path, monkeypatch) -> None:
    page = (HERE.parents[2] / "docs" / "implications.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(code, {}, "implications.md", None, 0)
    assert len(example.examples) == 8
    assert doctest.DocTestRunner().run(example).failed == 0
    command = re.search(r"^\$ tamis (draw .*)$", page, re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert "4 implications" in Path("chain.svg").read_text(encoding="utf-8")
