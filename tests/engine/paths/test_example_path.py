"""The example of docs/paths.md: a path is one class and one place in PATHS."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import oracle
from tamis import Matcher, Schema
from tamis.engine import paths
from tamis.language import parse

PAGE = Path(__file__).parents[3] / "docs" / "paths.md"
SCHEMA = Schema.of(symbol=str, price=float)
RULES = {"all": "TRUE", "cheap": "price < 5", "more": "price < 1 OR TRUE", "never": "FALSE"}
RULES |= {f"alert {i}": f"symbol = 'S{i % 20}' AND price < {i}.5" for i in range(60)}
MESSAGES = [{"symbol": f"S{i % 25}", "price": i / 2} for i in range(90)] + [{}]


@pytest.fixture
def always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The class, from the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "always_path.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location("always_path", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(paths, "PATHS", (*paths.PATHS, module.AlwaysPath))
    return module.AlwaysPath


def test_the_example_path_agrees_with_the_oracle(always, tmp_path: Path) -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many(RULES.items())
    matcher.remove("alert 3")
    expected = [
        [
            id
            for id, rule in RULES.items()
            if id != "alert 3" and oracle.matches(parse(rule), message, "sql", SCHEMA)
        ]
        for message in MESSAGES
    ]
    (part,) = matcher._contents.merging.state.parts
    assert len(part.segment.path(always).subscriptions) == 2
    assert "always: id 'all'" in matcher.compiled()
    assert matcher.report().always_true == ("all", "more")
    matcher.save(tmp_path / "saved")
    for each in (matcher, Matcher.load(tmp_path / "saved")):
        assert each.match_many(MESSAGES).to_pylist() == expected
        assert each.count_batch(MESSAGES).tolist() == [len(ids) for ids in expected]
        assert [each.match(m) for m in MESSAGES[::30]] == expected[::30]
