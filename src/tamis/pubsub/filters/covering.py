"""Whether one filter covers another (every message of the other is one of it), or overlaps it."""

from __future__ import annotations

from typing import NamedTuple

from tamis.logic.conjunctions import ANYTHING, Conjunction, Domains, conjoin, covered
from tamis.logic.dnf import Filter
from tamis.pubsub.subjects.subject import MORE, ONE, SubjectFilter


class Interest(NamedTuple):
    """What somebody wants: messages of some subjects that satisfy a filter."""

    subjects: SubjectFilter
    filter: Filter


class Piece(NamedTuple):
    """One conjunction of an interest."""

    subjects: SubjectFilter
    conjunction: Conjunction


def pieces(interest: Interest) -> list[Piece]:
    return [Piece(interest.subjects, one) for one in interest.filter.disjuncts]


def covers(a: Interest, b: Interest, domains: Domains = ANYTHING) -> bool:
    """Whether every message that b wants is wanted by a too; False where it takes too long to say.

    `domains` are what attributes can be: by default anything, of any type, or absent.
    """
    if b.filter.never:
        return True
    if not a.subjects.covers(b.subjects):
        return False
    return all(covered(one, a.filter.disjuncts, domains) for one in b.filter.disjuncts)


def overlaps(a: Interest, b: Interest) -> bool:
    """Whether some message can be wanted by both."""
    if not a.subjects.overlaps(b.subjects):
        return False
    pairs = ((one, other) for one in a.filter.disjuncts for other in b.filter.disjuncts)
    return any(conjoin(one, other) is not None for one, other in pairs)


def subject_hull(a: SubjectFilter, b: SubjectFilter) -> SubjectFilter:
    """A filter that covers both, and as little more as wildcards can say."""
    if a == b:
        return a
    closed = not (a.open or b.open) and len(a.fields) == len(b.fields)
    common = len(a.fields) if closed else min(len(a.fields), len(b.fields)) - 1
    pairs = zip(a.fields[:common], b.fields[:common], strict=True)
    fields = tuple([x if x == y else ONE for x, y in pairs])
    return SubjectFilter(fields if closed else (*fields, MORE))
