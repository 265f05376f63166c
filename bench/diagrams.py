"""The diagram of the ICSE queries as the paper had it before restriction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.workloads import icse
from tamis.diagram import packed
from tamis.diagram.shared import Shared, build, no_knowledge
from tamis.language import And, Condition, Not, Or, parse

_PRINTED = {parse(atom): number for number, atom in enumerate(icse.ATOMS)}


def printed(conditions: Sequence[Condition]) -> Shared:
    """The diagram over the 208 atoms as printed, with no knowledge of what they mean.

    This is the paper's "before restriction": `i1 < 10` and `i1 >= 10` are two variables.
    """
    programs = [list(_words(condition)) for condition in conditions]
    offsets = np.cumsum([0, *map(len, programs)]).astype(np.int64)
    words = np.array([word for program in programs for word in program], np.int32)
    variables = no_knowledge(len(icse.ATOMS))
    return build(offsets, words, variables, restricting=False, budget=1_000_000)


def _words(condition: Condition, negated: bool = False) -> Iterator[int]:
    """The condition in postfix words (see diagram.bdd.build_one), NOT pushed to the atoms."""
    match condition:
        case Not(part):
            yield from _words(part, not negated)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _words(part, negated)
            conjunction = isinstance(condition, And) != negated
            yield (packed.conjunction if conjunction else packed.disjunction)(len(parts))
        case _:
            yield packed.literal(_PRINTED[condition], negated)
