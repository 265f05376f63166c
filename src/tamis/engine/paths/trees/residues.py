"""Programs that are checked where the bounds of a cube are not all that a condition asks."""

from __future__ import annotations

import numpy as np

from tamis.diagram import packed
from tamis.engine.ground.layout import I4, I8
from tamis.engine.paths.trees.cube_trees import ASK_BELOW, ASK_EVENT, ASK_FLAG, Trees
from tamis.logic import Kind

# Plain numbers: numpy asks an enumeration for attributes, in Python, and drops what is raised
# there, Ctrl-C included.
_DEFINED, _BELOW = int(Kind.DEFINED), int(Kind.BELOW)
Asked = tuple[I4, I8, I4]  # question, threshold, and place of each variable
Programs = tuple[I8, I4]  # offsets and words


def with_residues(trees: Trees, checked: I4, programs: Programs, asked: Asked) -> Trees:
    """The trees with the programs of the subscriptions `checked`, in the order of `check`."""
    if not len(checked):
        return trees
    offsets, words = programs
    own, which = np.unique(checked, return_inverse=True)
    sizes = np.diff(offsets)[own]
    made_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    shift = np.repeat(offsets[own] - made_offsets[:-1], sizes)
    made = words[shift + np.arange(made_offsets[-1])]
    literal = packed.is_literal(made)
    variables, ask = np.unique(packed.asked(made[literal]), return_inverse=True)
    made[literal] = packed.literal(ask.astype(np.int32), packed.negated(made[literal]))
    rows, keys = _asks(variables, asked)
    return trees._replace(
        check=which.astype(np.int32), program=made_offsets, word=made, ask=rows, ask_key=keys
    )


def _asks(variables: I4, asked: Asked) -> tuple[I4, I8]:
    question, place, keys = asked[0][variables], asked[2][variables], asked[1][variables]
    kind = packed.kind(question)
    what = np.where(kind == _BELOW, ASK_BELOW, np.where(kind > _BELOW, ASK_EVENT, ASK_FLAG))
    bit = np.where(kind == _DEFINED, 1, 2 << packed.family(question))
    return np.stack([what, place, bit], axis=1).astype(np.int32), keys
