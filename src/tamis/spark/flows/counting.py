"""How many messages pass each arc and come into each space: counted while they flow.

A message comes into a space by a path, and passes the last arc of that path. So the selects of
all paths, asked of every message of a source, give all counts, whichever way the flow is run.
Level by level each row knows the arc that it came by, and the rows are counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.rewriting import Path, Plan, rewrite
from tamis.flow.showing.flow_pictures import Counts
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.flows.step_columns import Flowing
from tamis.spark.flows.streams import TARGET, Layout

MOST = 100  # paths of a flow whose messages are counted arc by arc
_PATIENCE = 20.0  # seconds for counters of a batch that is done
_WIDE = "tamis_wide"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a row is there: it was published in the target, or came by the last of the arcs."""

    target: str
    arcs: tuple[int, ...]
    rejected: bool


@dataclass
class Counting:
    """Puts counters into the frames of a flow, and adds up what Spark observes."""

    graph: Graph
    spaces: Counter[str] = field(default_factory=Counter)
    arcs: Counter[int] = field(default_factory=Counter)
    rejected: int = 0
    rows: int = 0
    known: bool = False  # whether arcs and spaces were counted, not only rows
    _paths: dict[str, Sequence[Path | Cause]] = field(default_factory=dict)
    _batch: dict[str, Observation] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan:
        return rewrite(self.graph, self.graph.schemas)

    @property
    def counts(self) -> Counts | None:
        """None if nothing was counted, or arc by arc only the rows."""
        if not self.known:
            return None
        arcs = {arc.number: self.arcs[arc.number] for arc in self.graph.arcs}
        spaces = {name: self.spaces[name] for name in self.graph.schemas}
        return Counts(spaces, arcs)

    # --- putting counters in -----------------------------------------------------

    def source(self, space: str, flowing: Flowing) -> DataFrame:
        """The messages of a source, with a counter for each of its paths."""
        name = f"tamis_{len(self._paths)}"
        few = len(self.plan.paths) <= MOST
        own = [path for path in self.plan.paths if path.source == space] if few else []
        self._paths[name] = own
        self.known |= bool(own)
        shared, types = self.plan.shared.get(space, ()), self.plan.schema_of(space)
        ready = flowing.with_terms(shared, types, inline=True) if own else flowing
        ready = ready.looked_up([path.select for path in own])
        asked = [ready.translation.condition(path.select) for path in own]
        counters = [_count(condition).alias(f"p{i}") for i, condition in enumerate(asked)]
        counted = self._observed(name, ready.frame, [_count(F.lit(True)).alias("rows"), *counters])
        return counted.select(*(quoted(column) for column in flowing.schema))

    def levels(self, frame: DataFrame, cause: Column, causes: list[Cause]) -> DataFrame:
        """All rows of a flow, with a counter for each cause. What states are expanded to is not
        among the messages that came in."""
        name = f"tamis_{len(self._paths)}"
        self._paths[name] = causes
        self.known = True
        made = {e.target for node in self.graph.states for e in node.expansions}
        published = [i for i, c in enumerate(causes) if not c.arcs and c.target not in made]
        counters = [_count(cause == i).alias(f"p{i}") for i in range(len(causes))]
        return self._observed(name, frame, [_count(cause.isin(published)).alias("rows"), *counters])

    def wide(self, frame: DataFrame, layout: Layout) -> DataFrame:
        """The rows of a rewritten flow, with a counter for those that do not fit."""
        rejected = [i for i, target in enumerate(layout.targets) if target.rejected]
        if not rejected:
            return frame
        counter = _count(F.col(TARGET).isin(rejected)).alias("rejected")
        return self._observed(_WIDE, frame, [counter])

    def _observed(self, name: str, frame: DataFrame, counters: list[Column]) -> DataFrame:
        if frame.isStreaming:
            return frame.observe(name, *counters)
        self._batch[name] = Observation(name)
        return frame.observe(self._batch[name], *counters)

    # --- adding up ---------------------------------------------------------------

    def add(self, metrics: Mapping[str, Any]) -> None:
        """What Spark observed in a micro-batch, or in a batch."""
        for name, paths in self._paths.items():
            row = metrics.get(name)
            if row is None:
                continue
            self.rows += row["rows"] or 0
            for i, path in enumerate(paths):
                self._add(path, row[f"p{i}"] or 0)
        if (row := metrics.get(_WIDE)) is not None:
            self.rejected += row["rejected"] or 0

    def add_batch(self) -> None:
        """What the first action of a batch has observed."""
        found: dict[str, Any] = {}

        def take() -> None:
            for name, observation in self._batch.items():
                found[name] = observation.get

        taking = threading.Thread(target=take, daemon=True)  # it would wait for ever
        taking.start()
        taking.join(_PATIENCE)
        self._batch.clear()
        self.add(dict(found))

    def merge(self, other: Counting) -> None:
        """Add what another one, of the same flow, has counted."""
        self.spaces.update(other.spaces)
        self.arcs.update(other.arcs)
        self.rejected += other.rejected
        self.rows += other.rows
        self.known |= other.known

    def _add(self, path: Path | Cause, count: int) -> None:
        if path.arcs:
            self.arcs[path.arcs[-1]] += count
        if not path.rejected:
            self.spaces[path.target] += count


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))
