"""A network of routers keeps its promises in a made-up world; see network.py and mutants.py."""

from __future__ import annotations

import inspect
import os
from collections import Counter

import pytest

from dose import DEEP
from pubsub.links import mutants, test_router
from pubsub.links.network import simulate

SEEDS = int(os.environ.get("TAMIS_SEEDS", "200"))
SCENARIOS = [
    test
    for name, test in vars(test_router).items()
    if name.startswith("test_") and not inspect.signature(test).parameters
]


def test_every_agent_gets_what_it_wants_once_and_in_order():
    worlds = [simulate(seed) for seed in range(SEEDS)]
    counts = sum((world.counts for world in worlds), Counter())
    for event in ("cuts", "crashes", "moves", "restored", "fetched", "copies dropped"):
        assert counts[event] >= SEEDS // 100, counts
    assert sum(len(agent.seen) for world in worlds for agent in world.agents) > 5 * SEEDS


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_broken_rule_is_noticed(name):
    """By a scenario, or else by the simulation."""
    if DEEP:
        assert mutants.found_by(name, 2_000) is not None
    with mutants.mutated(name):
        noticed = any(fails(scenario) for scenario in SCENARIOS)
    assert noticed or mutants.found_by(name, 50) is not None


def fails(scenario) -> bool:
    try:
        scenario()
    except Exception:
        return True
    return False
