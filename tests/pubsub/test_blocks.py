"""A commit is stored in blocks that are not too large, and none of them cuts a request."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.intake import BLOCK, Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker
from tamis.schema import Schema

BODIES = st.lists(st.sampled_from([1, 1_000, BLOCK // 3, BLOCK, BLOCK + 1]), min_size=1, max_size=4)


def committed(requests):
    """What is stored of requests, each a list of sizes of bodies; and the answers."""
    broker = Broker()
    broker.open(1, Language(Schema.of(n=int)))
    number = 0
    for request, sizes in enumerate(requests):
        drafts = [Draft("a", b"x" * size, number + n) for n, size in enumerate(sizes, 1)]
        number += len(sizes)
        broker.publish(request, 1, "p", drafts)
    broker.tick(1)
    found = [one.blocks for one in broker.actions() if isinstance(one, act.Commit)]
    broker.committed()
    [answers] = [one.answers for one in broker.actions() if isinstance(one, act.Acknowledged)]
    assert broker.channels[1].next == 1 + sum(map(len, requests))
    return (found[0] if found else []), dict(answers)


@given(st.lists(BODIES, min_size=1, max_size=8))
def test_blocks_are_small_and_cut_no_request(requests):
    blocks, answers = committed(requests)
    sequences = [r.sequence for block in blocks for r in block.records]
    assert sequences == [s for request in range(len(requests)) for s in answers[request]]
    assert sequences == list(range(1, len(sequences) + 1))
    first = {found[0] for found in answers.values()}
    for block in blocks:
        assert block.first in first
        size = sum(len(r.body) for r in block.records)
        alone = any(found[0] == block.first and found[-1] == block.last
                    for found in answers.values())  # fmt: skip
        assert size <= BLOCK or alone
    for one, other in pairwise(blocks):  # none is smaller than need be
        [next] = [n for n, found in answers.items() if found[0] == other.first]
        assert sum(len(r.body) for r in one.records) + sum(requests[next]) > BLOCK
    assert not any(block.numbers for block in blocks[:-1])
    assert blocks[-1].numbers["p"]
