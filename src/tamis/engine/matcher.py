"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from tamis.engine.matches import Matches
from tamis.errors import SelectorError, SubscriptionError
from tamis.language import Limits, attributes, check, parse
from tamis.language.tree import Condition
from tamis.logic import Explanation, Formula, Lookups, Reducer, Semantics, explain, finder, satisfied
from tamis.schema import INT_MAX, INT_MIN, Schema

if TYPE_CHECKING:
    import pyarrow as pa

Id = str | int
Dialect = Literal["tamis", "jms"]


class Matcher:
    """A set of subscriptions. Add, remove, and ask which of them a message matches."""

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        semantics: Semantics = "sql",
        dialect: Dialect = "tamis",
        limits: Limits = Limits(),
        lookups: Lookups | None = None,
    ) -> None:
        self.schema, self.semantics, self.dialect, self.limits = schema, semantics, dialect, limits
        self.lookups: Lookups = lookups or {}
        self._reducer = Reducer(semantics, schema)
        self._conditions: dict[Id, Condition] = {}
        self._formulas: dict[Id, Formula] = {}

    def __len__(self) -> int:
        return len(self._formulas)

    def __contains__(self, id: object) -> bool:
        return id in self._formulas

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that some subscription looks at."""
        names = dict.fromkeys(name for c in self._conditions.values() for name in attributes(c))
        if self.semantics == "total" and self.schema is not None:
            names |= dict.fromkeys(self.schema)
        return tuple(names)

    def add(self, id: Id, selector: str) -> None:
        """Subscribe `id` (not yet in use) to the messages that `selector` describes."""
        if not isinstance(id, (str, int)) or isinstance(id, bool):
            raise SubscriptionError(f"an id is a string or a 64-bit integer, not {id!r}")
        if isinstance(id, int) and not INT_MIN <= id <= INT_MAX:
            raise SubscriptionError(f"id {id} does not fit into 64 bits")
        if id in self._formulas:
            raise SubscriptionError(f"there is a subscription {id!r} already: remove or replace it")
        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        check(condition, self.schema, text=selector, lookups=tuple(self.lookups))
        reducer = self._reducer
        from tamis.logic.atoms import all_of

        self._formulas[id] = all_of([reducer.adequacy(condition), reducer.holds(condition)])
        self._conditions[id] = condition

    def add_many(
        self,
        subscriptions: Iterable[tuple[Id, str]],
        on_error: Callable[[Id, str, SelectorError | SubscriptionError], None] | None = None,
    ) -> int:
        """Add all, and say how many were good. A bad one raises, or goes to `on_error`."""
        added = 0
        for id, selector in subscriptions:
            try:
                self.add(id, selector)
                added += 1
            except (SelectorError, SubscriptionError) as error:
                if on_error is None:
                    raise
                on_error(id, selector, error)
        return added

    def remove(self, id: Id) -> None:
        if id not in self._formulas:
            raise SubscriptionError(f"there is no subscription {id!r}")
        del self._formulas[id], self._conditions[id]

    def match(self, message: Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the message matches, in the order of adding."""
        find = finder(message, self.semantics, self.schema)
        return [id for id, formula in self._formulas.items() if satisfied(formula, find, self.lookups)]

    def match_many(self, messages: Iterable[Mapping[str, object]]) -> Matches:
        import pyarrow as pa

        found = [self.match(message) for message in messages]
        offsets = np.cumsum([0, *map(len, found)])
        return Matches(offsets, pa.array([id for ids in found for id in ids]))

    def match_batch(self, table: pa.Table | pa.RecordBatch) -> Matches:
        return self.match_many(table.to_pylist())

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        if id not in self._conditions:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return explain(self._conditions[id], message, self.schema, self.semantics, self.lookups)
