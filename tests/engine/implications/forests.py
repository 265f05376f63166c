"""Forests of a few selectors, with nodes and edges in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.diagram.conditions import Diagram
from tamis.diagram.wording import atom_text
from tamis.engine.ground.sources import Source
from tamis.engine.implications.edges import Edges, edges_of, find, nothing_found
from tamis.engine.implications.forest import Forest, plant
from tamis.engine.reading.intake import Intake
from tamis.language import Limits
from tamis.schema import Schema


def source_of(intake: Intake, selectors: list[str]) -> Source:
    read = [intake.read(text) for text in selectors]
    offsets = np.cumsum([0, *(len(keys) for _, keys in read)]).astype(np.int64)
    return Source(
        np.arange(len(selectors), dtype=np.int32),
        np.array([template for template, _ in read], np.int32),
        offsets,
        np.array([key for _, keys in read for key in keys], np.int64),
    )


@dataclass
class Planted:
    intake: Intake
    forest: Forest

    @classmethod
    def of(cls, selectors, schema: Schema | None = None, semantics="total", **options) -> Planted:
        intake = Intake(schema, semantics, "tamis", Limits(), {})
        source = source_of(intake, selectors)
        return cls(intake, plant(intake.vocabulary, intake.templates, source, **options))

    def edges(self, budget: int = 4) -> Edges:
        found = nothing_found(self.forest)
        find(self.forest, found, 0, len(self.forest))
        return edges_of(self.forest, found, budget)

    def text(self, node: int) -> str:
        trees = self.forest.trees
        if trees.test[node] == len(self.forest.atoms.question):
            return str(bool(trees.low[node])).upper()
        diagram = Diagram(None, self.forest.atoms, self.intake.vocabulary)
        return atom_text(diagram, int(trees.test[node]))

    def tree(self, tree: int):
        """Nested (test, when true, when false); leaves are TRUE and FALSE."""
        trees = self.forest.trees

        def at(node: int):
            if trees.test[node] == len(self.forest.atoms.question):
                return self.text(node)
            return (self.text(node), at(trees.high[node]), at(trees.low[node]))

        return at(trees.root[tree])

    def path(self, node: int) -> str:
        """pre(node) in words, behind the number of its tree."""
        trees = self.forest.trees
        at, words = int(trees.root[trees.owner[node]]), []
        while at != node:
            low, inside = int(trees.low[at]), node < trees.low[at]
            words.append(self.text(at) if inside else f"NOT {self.text(at)}")
            at = at + 1 if inside else low
        return f"S{trees.owner[node] + 1}: " + " AND ".join(words)

    def edge_texts(self, **options) -> set[tuple[str, str]]:
        """Edges as pairs of preconditions."""
        edges = self.edges(**options)
        return {
            (self.path(n), self.path(int(target)))
            for n in range(len(self.forest.trees.test))
            for target in edges.target[edges.offsets[n] : edges.offsets[n + 1]]
        }
