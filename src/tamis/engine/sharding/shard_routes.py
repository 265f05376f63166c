"""Which values a subscription waits for, and so to which shard it and its messages can be sent.

A subscription waits for values of an attribute if it matches no message in which the attribute
is none of them: `symbol = 'IBM' AND price < 9` waits for IBM. Where both sides agree on a number
for every value (its bucket), a message needs to meet only the subscriptions of its own bucket,
and those that wait for nothing.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.diagram.questions import AMONG
from tamis.engine.ground.ids import Id
from tamis.engine.ground.layout import I4, I8
from tamis.engine.live.adding import OnError
from tamis.engine.matcher import Matcher
from tamis.engine.reading.intake import Intake
from tamis.errors import SelectorError, SubscriptionError
from tamis.language.tree import Attribute
from tamis.logic import Family, Kind
from tamis.logic.atoms import family_of
from tamis.schema import Scalar, Type

MOST_VALUES = 64  # a subscription that waits for more values of an attribute is not routed by it
EXACT = 2**53  # doubles from here on share one bucket
BEYOND = 0  # that bucket
_READ = 1 << 18  # selectors that are read before what was remembered of them is dropped
_TRIED = 8  # attributes among which the best is looked for
_ROUTABLE = (Type.INT, Type.DOUBLE, Type.STRING, Type.BOOL)
Kinds = Callable[[str], Type | None]  # how the values of an attribute come; None: never compared
Waits = dict[int, tuple[int, ...]]  # by term: the literals of which one must be true


def bucket(value: Scalar, kind: Type) -> int:
    """The bucket of a value that comes as `kind`: CRC-32 of its text.

    Doubles go by their whole part, since their texts differ from system to system; so values that
    are equal are in one bucket, whether they are written as integers or as doubles.
    """
    if kind is Type.BOOL:
        return zlib.crc32(b"true" if value else b"false")
    if kind is Type.STRING:
        return zlib.crc32(str(value).encode("utf-8", "surrogatepass"))
    if kind is Type.DOUBLE and not -EXACT < value < EXACT:  # type: ignore[operator]
        return BEYOND
    return zlib.crc32(str(int(value)).encode())  # type: ignore[arg-type]


# --- one subscription ----------------------------------------------------------


class Reader:
    """Reads selectors under one matcher's settings: by attribute, the buckets each waits for."""

    def __init__(self, matcher: Matcher, kinds: Kinds) -> None:
        self._settings = matcher
        self._kinds = kinds
        self._left = 0
        self._forget()

    def _forget(self) -> None:
        own = self._settings
        self._intake = Intake(own.schema, own.semantics, own.dialect, own.limits, own.lookups)
        self._waits: dict[int, list[tuple[str, Type, tuple[tuple[int, int], ...]]]] = {}
        self._known: dict[tuple[int, int], frozenset[int] | None] = {}
        self._left = _READ

    def buckets(self, selector: str) -> Iterator[tuple[str, frozenset[int]]]:
        """Attributes, and for each the buckets of its values; SelectorError for a bad selector."""
        if not self._left:
            self._forget()
        self._left -= 1
        template, keys = self._intake.read(selector)
        if template not in self._waits:
            self._waits[template] = self._candidates(template)
        for name, kind, literals in self._waits[template]:
            found: frozenset[int] | None = frozenset()
            for asked, literal in literals:
                own = self._of(asked, keys[literal], kind)
                found = None if own is None or found is None else found | own
            if found is not None and len(found) <= MOST_VALUES:
                yield name, found

    def _candidates(self, template: int) -> list[tuple[str, Type, tuple[tuple[int, int], ...]]]:
        """Of a template: name and kind of an attribute, and (question, literal) of its values."""
        made = self._intake.templates.items[template]
        terms, asked = self._intake.vocabulary.terms.terms, made.asked
        found = []
        for number, literals in waits(made.words).items():
            term = terms[number]
            kind = self._kinds(term.name) if isinstance(term, Attribute) else None
            if isinstance(term, Attribute) and kind in _ROUTABLE:
                found.append((term.name, kind, tuple((asked[i], i) for i in literals)))
        return found

    def _of(self, asked: int, key: int, kind: Type) -> frozenset[int] | None:
        """The buckets of a literal's constants; None where they are too many."""
        if (asked, key) not in self._known:
            values = self._values(asked, key)
            family = Family(packed.family(asked))
            # A constant of another family equals no value of the attribute: it needs no bucket.
            alike = family_of(kind) is family
            few = len(values) <= MOST_VALUES
            found = frozenset(bucket(v, kind) for v in values if alike) if few else None
            self._known[asked, key] = found
        return self._known[asked, key]

    def _values(self, asked: int, key: int) -> Sequence[Scalar]:
        vocabulary = self._intake.vocabulary
        if packed.kind(asked) == AMONG:
            return vocabulary.pool.listed(key)
        term, family = packed.term(asked), packed.family(asked)
        if not vocabulary.terms.direct(term, family):
            return (vocabulary.pool.values[key],)
        return (_double(key) if vocabulary.terms.types[term] is Type.DOUBLE else key,)


def _double(key: int) -> float:
    """The double of an order-preserving key."""
    bits = key if key >= 0 else key ^ 0x7FFFFFFFFFFFFFFF
    return float(np.int64(bits).view(np.float64))


def waits(words: Sequence[int]) -> Waits:
    """What a program waits for: it is false wherever all the literals of a term are.

    None on the stack stands for a part that is never true.
    """
    stack: list[Waits | None] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            stack.append(_literal(word, literal))
            literal += 1
            continue
        width, is_or = packed.width(word), packed.is_or(word)
        parts = stack[len(stack) - width :]
        del stack[len(stack) - width :]
        stack.append(_either(parts) if is_or else _all(parts))
    return (stack[0] if stack else None) or {}


def _literal(word: int, number: int) -> Waits:
    asked = packed.asked(word)
    kind, family = packed.kind(asked), packed.family(asked)
    membership = (
        not packed.negated(word) and kind in (Kind.MEMBER, AMONG) and family != Family.TIMESTAMP
    )
    return {packed.term(asked): (number,)} if membership else {}


def _all(parts: list[Waits | None]) -> Waits | None:
    """Whatever one part waits for, all of them do: of two ways, the one with fewer literals."""
    found: Waits = {}
    for part in parts:
        if part is None:
            return None
        for term, literals in part.items():
            if term not in found or len(literals) < len(found[term]):
                found[term] = literals
    return found


def _either(parts: list[Waits | None]) -> Waits | None:
    possible = [part for part in parts if part is not None]
    if not possible:
        return None
    shared = set(possible[0]).intersection(*possible[1:])
    return {t: tuple(n for part in possible for n in part[t]) for t in sorted(shared)}


# --- many subscriptions --------------------------------------------------------


@dataclass(slots=True)
class Split:
    """Subscriptions, by number: those of each shard of an attribute, and the rest of them."""

    attribute: str | None
    shards: list[I8]
    rest: I8

    @property
    def most(self) -> int:
        """How many subscriptions the fullest shard and the rest have together."""
        return len(self.rest) + max(map(len, self.shards), default=0)


@dataclass(slots=True)
class Routes:
    """By which attributes each of many subscriptions can be routed, in 16 bytes for each way.

    Takes subscriptions as a matcher does, but compiles nothing. `repeated` has the ids that
    may come twice.
    """

    reader: Reader
    repeated: Container[Id] = ()
    count: int = 0
    _names: dict[str, int] = field(default_factory=dict)
    _seen: set[Id] = field(default_factory=set)
    _number: array[int] = field(default_factory=lambda: array("q"))
    _name: array[int] = field(default_factory=lambda: array("i"))
    _bucket: array[int] = field(default_factory=lambda: array("I"))

    def add_many(
        self, subscriptions: Iterable[tuple[Id, str]], on_error: OnError | None = None
    ) -> int:
        """Take all, and say how many were good. A bad one goes to `on_error`, or raises."""
        before = self.count
        for id, selector in subscriptions:
            try:
                if id in self._seen:
                    raise SubscriptionError(
                        f"there is a subscription {id!r} already: remove or replace it"
                    )
                self._add(self.reader.buckets(selector))
            except (SelectorError, SubscriptionError) as error:
                if on_error is None:
                    raise
                on_error(id, selector, error)
                continue
            if id in self.repeated:
                self._seen.add(id)
        return self.count - before

    def _add(self, found: Iterable[tuple[str, frozenset[int]]]) -> None:
        for name, buckets in found:
            number = self._names.setdefault(name, len(self._names))
            for one in buckets or (BEYOND,):  # one that never matches needs a place all the same
                self._number.append(self.count)
                self._name.append(number)
                self._bucket.append(one)
        self.count += 1

    def split(self, shards: int) -> Split:
        """By the attribute for which the fullest shard and the rest together are smallest."""
        number, name = np.array(self._number, np.int64), np.array(self._name, np.int32)
        shard = np.array(self._bucket, np.uint32) % np.uint32(shards)
        everything = np.arange(self.count, dtype=np.int64)
        best = Split(None, [], everything)
        names = list(self._names)
        for i in self._frequent(number, name):
            own = name == i
            found = _split(names[i], number[own], shard[own], shards, everything)
            if best.attribute is None or found.most < best.most:
                best = found
        return best

    def _frequent(self, number: I8, name: I4) -> list[int]:
        """The attributes that route most subscriptions; the ways of one stand side by side."""
        first = (np.diff(number, prepend=-1) != 0) | (np.diff(name, prepend=-1) != 0)
        counts = np.bincount(name[first], minlength=len(self._names))
        order: list[int] = np.argsort(-counts, kind="stable").tolist()
        return order[:_TRIED]


def _split(
    name: str, number: I8, shard: npt.NDArray[np.uint32], shards: int, everything: I8
) -> Split:
    # Numbers ascend, so that each shard keeps the order of adding.
    members = [np.unique(number[shard == i]) for i in range(shards)]
    routed = np.zeros(len(everything), bool)
    routed[number] = True
    return Split(name, members, everything[~routed])
