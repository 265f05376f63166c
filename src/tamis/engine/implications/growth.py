"""How an implication graph grows: subscriptions match at once, their implications follow.

New subscriptions go into small graphs without edges. A background thread of low priority plants
all that is alive as one forest and finds its edges, piece by piece. Edges only ever save work, so
answers do not depend on how far it got (US 7,136,899, figure 8).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.engine.ground.layout import U1
from tamis.engine.ground.sources import Source
from tamis.engine.implications.edges import EDGES, edges_of, find, nothing_found
from tamis.engine.implications.forest import BUDGET, plant
from tamis.engine.implications.implication_graph import Graph, GraphState
from tamis.engine.live.background import ENDING
from tamis.engine.live.merging import SEALED, Merging, joined, place
from tamis.engine.live.state import State
from tamis.engine.paths.segment import compile_segment
from tamis.engine.reading.templates import Templates

_QUIET = 0.05  # seconds without a change before the background starts
_MANY = 16  # small graphs from which on it starts without waiting
_PIECES = 4  # in which the edges of a forest are found

OnStep = Callable[[str], None]


class Implications(Merging):
    """The changing state of a matcher. Writers hold `lock`; readers just take `state`.

    `on_step` is called by the background thread after each of its steps.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        templates: Templates,
        *,
        tree_budget: int = BUDGET,
        edge_budget: int = EDGES,
        signposts: bool = True,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(lambda source: compile_segment(vocabulary, templates, source))
        self.state: GraphState = GraphState(signposts=signposts)
        self.on_step: OnStep = on_step or (lambda step: None)
        self._vocabulary, self._templates = vocabulary, templates
        self._tree_budget, self._edge_budget = tree_budget, edge_budget
        self._hurry = threading.Event()
        self._linked: Graph | None = None  # the graph whose edges are all found

    # --- writing -------------------------------------------------------------

    def with_more(self, source: Source, characters: int, *, instead_of: int = -1) -> GraphState:
        """The state with these subscriptions, and without slot `instead_of` (-1: with all).

        The caller holds the lock.
        """
        graphs, alive = list(self.state.graphs), self._living_without(instead_of)
        last = graphs[-1] if len(graphs) > 1 else None
        if last is not None and len(last) + len(source) <= SEALED:
            old = graphs.pop().forest.source
            source = joined([(old, alive.pop()), (source, _ones(len(source)))])
        graphs.append(self._planted(source))
        alive.append(_ones(len(source)))
        return self._of(graphs, alive)

    def without(self, slot: int) -> GraphState:
        """The state without a subscription. Its nodes and edges go with the next forest."""
        return self._of(self.state.graphs, self._living_without(slot))

    def _living_without(self, slot: int) -> list[U1]:
        """Who is alive when the subscription is gone."""
        alive = list(self.state.living)
        for i, graph in enumerate(self.state.graphs):
            if (at := place(graph.forest.source.slot, slot)) >= 0:
                alive[i] = alive[i].copy()
                alive[i][at] = 0
        return alive

    def settle(self) -> None:
        """Wait until the background thread has found what it can find."""
        self._hurry.set()
        try:
            super().settle()
        finally:
            self._hurry.clear()

    def _of(self, graphs: Sequence[Graph], alive: Sequence[U1]) -> GraphState:
        signposts = self.state.signposts
        return GraphState(graphs=tuple(graphs), living=tuple(alive), signposts=signposts)

    def _planted(self, source: Source) -> Graph:
        forest = plant(self._vocabulary, self._templates, source, budget=self._tree_budget)
        beside = None
        if len(forest.large):
            mask = np.zeros(len(source), np.uint8)
            mask[forest.large] = 1
            beside = self._compile(joined([(source, mask)]))
        return Graph.of(forest, beside)

    # --- the background --------------------------------------------------------

    def _merge_later(self) -> None:
        self._background.start()

    def _merge(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # where threads have priorities
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not ENDING.is_set():
            state = self.state
            if len(state.graphs) <= _MANY:
                self._hurry.wait(_QUIET)
            with self.lock:
                if self.state is not state and not self._hurry.is_set():
                    continue
                state = self.state
                if not self._due(state):
                    self._background.end()
                    return
            self._replant(state)

    def _due(self, state: GraphState) -> bool:
        whole = len(state.graphs) == 1 and state.graphs[0] is self._linked
        return bool(state.graphs) and not (whole and state.living[0].all())

    def _replant(self, state: GraphState) -> None:
        """All that is alive as one graph; then its edges. Only swaps hold the lock."""
        sources = [graph.forest.source for graph in state.graphs]
        source = joined(list(zip(sources, state.living, strict=True)))
        if not len(source):
            with self.lock:
                self._replace(state.graphs, None)
            return
        graph = state.graphs[0]
        if len(source) != len(graph) or len(state.graphs) > 1:
            graph = self._planted(source)
            with self.lock:
                self._replace(state.graphs, graph)
        self.on_step(f"planted {len(graph)}")
        found = nothing_found(graph.forest)
        step = max(64, -(-len(graph) // _PIECES))
        for first in range(0, len(graph), step):
            last = min(first + step, len(graph))
            find(graph.forest, found, first, last)
            linked = graph.with_edges(edges_of(graph.forest, found, self._edge_budget))
            with self.lock:
                self._replace((graph,), linked)
            graph = linked
            self.on_step(f"linked {last} of {len(graph)}")
        self._linked = graph

    def _replace(self, old: Sequence[Graph], new: Graph | None) -> None:
        """Put the new graph in place of the old; what was removed meanwhile stays so."""
        gone = {id(graph) for graph in old}
        pairs = list(zip(self.state.graphs, self.state.living, strict=True))
        # a small graph that grew meanwhile is another one now: its subscriptions stay with it
        stay = [(g, a) for g, a in pairs if id(g) not in gone]
        living = [g.forest.source.slot[a.view(bool)] for g, a in pairs if id(g) in gone]
        if new is not None:
            slots = new.forest.source.slot
            living.append(np.empty(0, np.int32))
            stay.insert(0, (new, np.isin(slots, np.concatenate(living)).astype(np.uint8)))
        self.state = self._of([g for g, _ in stay], [a for _, a in stay])

    # --- reading ---------------------------------------------------------------

    def diagrams(self) -> State:
        """All subscriptions as diagrams, for questions that trees do not answer."""
        state = self.state
        sources = [graph.forest.source for graph in state.graphs]
        if not sources:
            return State()
        source = joined(list(zip(sources, state.living, strict=True)))
        return State((self._compile(source),), (_ones(len(source)),))


def _ones(count: int) -> U1:
    return np.ones(count, np.uint8)
