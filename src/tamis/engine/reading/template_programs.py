"""Programs of templates as programs of subscriptions."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from tamis.diagram import packed
from tamis.jit.kernel import kernel


@kernel
def literals(offsets, words, template, asked):
    """Copy the question of every literal of every subscription, in order, into `asked`."""
    at = 0
    for t in template:
        for i in range(offsets[t], offsets[t + 1]):
            if packed.is_literal(words[i]):
                asked[at] = packed.asked(words[i])
                at += 1


@kernel
def expand(offsets, words, template, variable, out_offsets, out):
    """Programs over variables: each literal's question replaced by its variable."""
    at = 0
    literal = 0
    for s in range(template.size):
        t = template[s]
        out_offsets[s] = at
        for i in range(offsets[t], offsets[t + 1]):
            word = words[i]
            if packed.is_literal(word):
                word = packed.literal(variable[literal], packed.negated(word))
                literal += 1
            out[at] = word
            at += 1
    out_offsets[template.size] = at
