"""The arcs of a flow's text as they were written, to change or remove one and nothing else."""

from __future__ import annotations

from typing import NamedTuple

from tamis.errors import InputError
from tamis.flow.text.flow_parser import statement_ends
from tamis.flow.text.flow_reader import parse_flow


class ArcText(NamedTuple):
    """`text` is `whole[first:end]`, with the comments inside of it."""

    source: str
    target: str
    text: str
    first: int
    end: int


def arcs_of(text: str) -> list[ArcText]:
    """In their order. A text that cannot be read is a FlowError."""
    arcs = parse_flow(text).arcs
    ends = statement_ends(text)
    return [ArcText(arc.source, arc.target, text[arc.at : ends[arc.at]], arc.at, ends[arc.at])
            for arc in arcs]  # fmt: skip


def changed(text: str, arc: str, to: str) -> str:
    """The text with another statement in place of this one. `to` empty: without it and the rest of
    its line. The first one of several that are written alike."""
    found = next((one for one in arcs_of(text) if one.text == arc), None)
    if found is None:
        raise InputError("the flow has no such arc any more: look at its text")
    if to.strip():
        return text[: found.first] + to.strip() + text[found.end :]
    line = text.find("\n", found.end)
    return text[: found.first] + (text[line + 1 :] if line >= 0 else "")
