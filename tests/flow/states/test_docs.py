"""docs/states.md names what there is."""

from __future__ import annotations

import inspect
from pathlib import Path

from tamis.cli.flows import state_commands as commands
from tamis.flow import check, parse_flow
from tamis.flow import states as public

PAGE = (Path(__file__).parents[3] / "docs" / "states.md").read_text(encoding="utf-8")


def test_every_public_name_and_option_is_named() -> None:
    names = ("collapse", "expand", "equivalent", "catch_up", "States", "Summary", "Derived",
             "DerivedEvent", "Limits")  # fmt: skip
    assert [n for n in names if n not in PAGE or not hasattr(public, n)] == []
    options = [
        f"--{name.rstrip('_')}"
        for command in (commands.expand, commands.state)
        for name, given in inspect.signature(command).parameters.items()
        if given.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    assert [option for option in options if f"`{option}" not in PAGE] == []


def test_the_flow_of_the_page_can_be_read() -> None:
    text = PAGE.split("```\n")[1]
    assert [node.name for node in check(parse_flow(text)).states] == ["Quote"]
