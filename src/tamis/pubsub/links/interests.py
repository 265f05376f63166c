"""What the subscriptions at a router want, merged into as few wants as possible."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from tamis.errors import SelectorError
from tamis.language import canonical, parse
from tamis.logic.dnf import Filter, dnf, domains
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.filters import Interest, Merge, Piece
from tamis.pubsub.links.wants import Want
from tamis.pubsub.selectors import condition
from tamis.pubsub.subjects.subject import SubjectFilter

_MERGED = ("sql", "total", "strict")  # semantics under which merged filters can be written


class Changed(NamedTuple):
    """Wants that come, and wants that go."""

    came: list[Want]
    gone: list[Want]


class Interests:
    """Subscriptions by key. Together the wants ask for exactly what the subscriptions ask for.

    A selector that is no union of ranges and lists (LIKE, arithmetic, calls), or of too many,
    becomes a want as it is. `limit` bounds the merged wants: more are widened.
    """

    def __init__(self, language: Language, limit: int | None = None) -> None:
        self._language = language
        self._semantics = "sql" if language.semantics == "total" else language.semantics
        self._merge: Merge[Hashable] = Merge(limit, domains(language.schema, self._semantics))
        self._plain: dict[Hashable, Want] = {}  # of those that are not merged
        self._counts: dict[Want, int] = {}

    def __len__(self) -> int:
        return len(self._merge) + len(self._plain)

    def __contains__(self, key: object) -> bool:
        return key in self._merge or key in self._plain

    @property
    def wanted(self) -> Mapping[Want, int]:
        """The wants, and how often each is wanted."""
        return self._counts

    @property
    def wants(self) -> list[Want]:
        return list(self._counts)

    def put(self, key: Hashable, subjects: str, selector: str, bound: str = "") -> Changed:
        """A new subscription, or another filter for one; `bound` is a selector to AND to it."""
        return self.put_many([(key, subjects, selector, bound)])

    def put_many(self, many: Iterable[tuple[Hashable, str, str, str]]) -> Changed:
        """Subscriptions with different keys."""
        changes = _Changes(self._counts)
        new: dict[Hashable, Interest] = {}
        for key, subjects, selector, bound in many:
            text = " AND ".join(f"({part})" for part in (selector, bound) if part)
            text = text if bound and selector else selector or bound
            interest = self._interest(subjects, text)
            self._take_out(key, changes, kept=interest is not None)
            if interest is None:
                self._plain[key] = Want(subjects, text)
                changes.count(self._plain[key], 1)
            elif key in self._merge:
                self._apply(self._merge.replace(key, interest), changes)
            else:
                new[key] = interest
        self._apply(self._merge.add_many(new.items()), changes)
        return changes.changed()

    def remove(self, key: Hashable) -> Changed:
        changes = _Changes(self._counts)
        self._take_out(key, changes, kept=False)
        return changes.changed()

    def _take_out(self, key: Hashable, changes: _Changes, *, kept: bool) -> None:
        """`kept`: one that is merged stays, for it will be replaced."""
        if key in self._plain:
            changes.count(self._plain.pop(key), -1)
        elif key in self._merge and not kept:
            self._apply(self._merge.remove(key), changes)

    def _apply(self, change: tuple[tuple[Piece, ...], tuple[Piece, ...]], to: _Changes) -> None:
        added, removed = change
        for piece in added:
            to.count(self._want(piece), 1)
        for piece in removed:
            to.count(self._want(piece), -1)

    def _interest(self, subjects: str, selector: str) -> Interest | None:
        """None: it cannot be merged."""
        language = self._language
        if language.dialect != "tamis" or self._semantics not in _MERGED or "\0" in selector:
            return None
        filter = SubjectFilter.parse(subjects)
        if not selector:
            return Interest(filter, Filter(((),)))
        try:
            asked = parse(selector, dialect=language.dialect, limits=language.limits)
            return Interest(filter, dnf(asked, language.schema, self._semantics))
        except SelectorError:
            return None

    def _want(self, piece: Piece) -> Want:
        defined = self._semantics != "sql"
        text = condition(Filter((piece.conjunction,)), defined=defined)
        return Want(str(piece.subjects), canonical(text) if piece.conjunction else "")


class _Changes:
    """Counts wants, and knows which came and went since it was made."""

    def __init__(self, counts: dict[Want, int]) -> None:
        self._counts = counts
        self._before: dict[Want, bool] = {}

    def count(self, want: Want, step: int) -> None:
        count = self._counts.get(want, 0)
        self._before.setdefault(want, count > 0)
        if count + step:
            self._counts[want] = count + step
        else:
            del self._counts[want]

    def changed(self) -> Changed:
        there = self._counts
        came = [want for want, was in self._before.items() if not was and want in there]
        return Changed(came, [w for w, was in self._before.items() if was and w not in there])
