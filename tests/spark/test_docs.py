"""docs/spark.md: its example prints what it says, and it names every public call and option."""

from __future__ import annotations

import re
from pathlib import Path

import tamis.spark
from tamis.spark.message_questions import Options

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


def test_the_example_prints_what_it_says(spark, capsys):
    code, wanted = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]
    exec(compile(code, "docs/spark.md", "exec"), {})
    assert capsys.readouterr().out.strip() == wanted.strip()


def test_every_call_and_option_is_named():
    calls = [name for name in tamis.spark.__all__ if not re.search(rf"`{name}[(.]", PAGE)]
    options = [name for name in Options.__annotations__ if f"`{name}" not in PAGE]
    assert (calls, options) == ([], [])
