"""One row for the messages of any space: columns by type, as many as the widest space needs."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.flow.graphs.flow_graph import Graph
from tamis.schema import Schema, Type
from tamis.spark.native.native_values import SPARK_TYPES


class Slots:
    """`of[space][attribute]` is the column that holds it. An attribute keeps its column from
    space to space where it can: most messages then pass on as they are."""

    def __init__(self, graph: Graph) -> None:
        self.types: dict[str, str] = {}
        self._usual: dict[tuple[str, Type], str] = {}
        self.of: Mapping[str, Mapping[str, str]] = {
            space: self._assigned(schema) for space, schema in graph.schemas.items()
        }

    def _assigned(self, schema: Schema) -> dict[str, str]:
        chosen: dict[str, str] = {}
        for a in schema.attributes:
            usual = self._usual.get((a.name, a.type))
            if usual is not None and usual not in chosen.values():
                chosen[a.name] = usual
        for a in schema.attributes:
            if a.name not in chosen:
                chosen[a.name] = self._free(a.type, set(chosen.values()))
                self._usual.setdefault((a.name, a.type), chosen[a.name])
        return {a.name: chosen[a.name] for a in schema.attributes}

    def _free(self, kind: Type, taken: set[str]) -> str:
        number = 0
        while (column := f"{kind.value}{number}") in taken:
            number += 1
        self.types[column] = SPARK_TYPES[kind]
        return column
