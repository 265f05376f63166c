"""`Matcher(engine="implication")`: the same face over the graph of implications."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tamis.engine.ground.ids import Id
from tamis.engine.implications import Implications, Statistics
from tamis.engine.live.generation import Contents
from tamis.engine.matcher import Matcher
from tamis.engine.reading.intake import Intake
from tamis.engine.snapshot.pickled import need_pickles
from tamis.engine.values.mappings import Mappings
from tamis.errors import SnapshotError
from tamis.messages.tabular import as_mapping


class ImplicationMatcher(Matcher):
    """It answers the same, decides one subscription after the other, and counts the predicates that
    this saves."""

    def _empty(self) -> Contents:
        return Contents(self._intake(), _graph)

    @property
    def implications(self) -> Implications:
        return cast("Implications", self._contents.merging)

    def match_each(self, message: Mapping[str, object]) -> Iterator[Id]:
        contents = self._contents
        graph = cast("Implications", contents.merging)
        for slot in graph.state.each(self._single(message)):
            yield contents.ids[slot]

    def statistics(self, message: Mapping[str, object]) -> Statistics:
        batch = Mappings([as_mapping(message)], self.semantics, self.schema)
        return self.implications.state.statistics(batch, self.lookups)

    def save(self, path: str | os.PathLike[str]) -> None:
        raise SnapshotError(path, "only a matcher with engine='diagram' can be saved")

    def __reduce__(self) -> tuple[Any, ...]:
        """A graph has no snapshot: it is made again from its selectors."""
        need_pickles(self.lookups)
        return self._settings()

    def _settings(self) -> tuple[Any, ...]:
        names = ("schema", "semantics", "dialect", "limits", "lookups")
        return _made, ({name: getattr(self, name) for name in names}, self.items())

    def __copy__(self) -> Matcher:
        make, settings = self._settings()
        return cast("Matcher", make(*settings))


def _graph(intake: Intake) -> Implications:
    return Implications(intake.vocabulary, intake.templates)


def _made(options: dict[str, Any], pairs: list[tuple[Id, str]]) -> Matcher:
    matcher = Matcher(engine="implication", **options)
    matcher.add_many(pairs)
    return matcher
