"""A small dose of `hostile_commands.py`; TAMIS_HOSTILE=0 is all of it."""

from __future__ import annotations

import os

import pytest

from hostile_commands import STATE, commands, walk
from tamis.cli import main


def test_hostile_values_of_options_are_refused_with_a_reason():
    tally = walk(int(os.environ.get("TAMIS_HOSTILE", "200")), seed=14)
    assert {"exit 0", "exit 2"} <= tally.keys()


def test_the_walk_knows_all_commands():
    names = {name for name, _ in commands()}
    assert {"match", "serve", "flow show", "access end-token", "subscription create"} <= names


def test_options_nested_too_deep_are_refused(tmp_path, capfd):
    flow = tmp_path / "state.flow"
    flow.write_text(STATE)
    deep = '{"a":' * 2000
    assert main(["flow", "expand", str(flow), "Top", "--to=[2]", f"--key={deep}"]) == 2
    assert "--key: not JSON" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["check", "a\udc80"], ["check", "a\0"], ["publish", "c", "--batch=1.5e400"],
     ["status", f"--timeout={2**63}"], ["principal", "a", f"--directory={'x' * 9000}"]],
)  # fmt: skip
def test_an_argument_that_cannot_be_is_refused(arguments, capfd):
    assert main(arguments) == 2
    assert capfd.readouterr().err.strip()
