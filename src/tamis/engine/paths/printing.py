"""A compiled segment as text, path by path: what is looked up, what leads where, what is tested.

For people, and for tests that say where something is wrong. Atoms are named from the subscriptions;
all else is read from the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.diagram.variables import order
from tamis.engine.choosing.path import Printer
from tamis.engine.choosing.segment_names import Names
from tamis.engine.lookup.term_index import indexes
from tamis.engine.paths.segment import Segment
from tamis.engine.reading.template_programs import literals
from tamis.engine.reading.templates import Templates


def text_of(
    segment: Segment,
    vocabulary: Vocabulary,
    templates: Templates,
    name: Callable[[int], str] = "slot {}".format,
) -> str:
    """The segment, line by line; `name` says what the subscription of a slot is called."""
    return "\n".join(_lines(segment, _names(segment, vocabulary, templates), name)) + "\n"


def _lines(segment: Segment, names: Names, name: Callable[[int], str]) -> Iterator[str]:
    columns = segment.requirements.columns.tolist()
    spans = pairwise(segment.requirements.offsets.tolist())
    required = [[names.flag(c, 1) for c in columns[at:end]] for at, end in spans]
    owners = [name(slot) for slot in segment.source.slot.tolist()]
    printer = Printer(names, names.events, owners, required)
    yield from names.lines()
    for number, text in enumerate(printer.events):
        yield f"event {number}: {text}"
    for path in segment.paths:
        yield from path.lines(printer)


def _names(segment: Segment, vocabulary: Vocabulary, templates: Templates) -> Names:
    """The atoms of the segment's subscriptions, numbered as they were when it was compiled."""
    source = segment.source.source()
    used = templates.used(source.template)
    asked = np.empty(len(source.keys), np.int32)
    literals(used.offsets, used.words, used.which, asked)
    atoms, _ = order(vocabulary, asked, source.keys)
    return Names(vocabulary, atoms, indexes(vocabulary, atoms, used.items))
