"""What the rules of rewriting work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.elements import Output, Rule, Select, Step, Transform
from tamis.flow.model.expressions import TRUE
from tamis.flow.model.flow_types import FlowChecker
from tamis.language import Attribute, Condition
from tamis.schema import Attribute as Column
from tamis.schema import Schema


@dataclass(frozen=True, slots=True)
class Edge:
    """An arc between nodes of the externalised graph. `arc` is its number, None for an identity.

    Nodes are spaces, and the points at which messages come in (`X_p`) and go out (`X_s`); see
    `node_name` for how they are shown.
    """

    start: str
    end: str
    steps: tuple[Step, ...]
    arc: int | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """One way from a publication point to a subscription point.

    `arcs` are the numbers of the arcs that it takes. `rejected`: it leads the messages that break
    the `where` of the target to the error output. `schema` is that of the source.
    """

    source: str
    target: str
    arcs: tuple[int, ...]
    schema: Schema
    steps: tuple[Step, ...]
    rejected: bool = False

    @property
    def select(self) -> Condition:
        """What a message of the source must satisfy. Only after all selects have been joined."""
        first = self.steps[0] if self.steps else None
        return first.condition if isinstance(first, Select) else TRUE

    @property
    def transform(self) -> Transform:
        """What then becomes of it; the identity where nothing does."""
        last = self.steps[-1] if self.steps else None
        if isinstance(last, Transform):
            return last
        return Transform((identity(self.schema),))


def identity(schema: Schema) -> Rule:
    names = tuple(schema)
    return Rule(names, tuple(Output(name, Attribute(name)) for name in names))


@dataclass(frozen=True, slots=True)
class SingleSource:
    """All sources as one space with a tag: the last step of section 3.2.

    `selects` are the selects of the paths, each with the source it asks for; `transforms` is the
    table in which a message's source and the space that was subscribed to find what is to be done.
    """

    schema: Schema
    tag: str
    names: Mapping[str, Mapping[str, str]]  # source -> attribute -> attribute of the one space
    selects: tuple[Condition, ...]
    transforms: Mapping[tuple[str, str], tuple[tuple[int, Transform], ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A flow on its way from graph to paths.

    `wanted` are the spaces that somebody subscribes to. `dropped` are paths that no message can
    take, with the reason. `shared` are, for each source, terms that are computed once.
    """

    graph: Graph
    wanted: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    paths: tuple[Path, ...] = ()
    dropped: tuple[tuple[Path, str], ...] = ()
    shared: Mapping[str, tuple[Output, ...]] = field(default_factory=dict)
    single: SingleSource | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The publication points that some path starts from."""
        return tuple(dict.fromkeys(path.source for path in self.paths))

    def into(self, space: str, *, rejected: bool = False) -> tuple[Path, ...]:
        return tuple(p for p in self.paths if p.target == space and p.rejected == rejected)

    def schema_of(self, source: str) -> Schema:
        """The attributes of a source's messages, and the terms that its paths share."""
        schema = self.graph.schemas[source]
        for output in self.shared.get(source, ()):
            kind = FlowChecker(schema, self.graph.lookups).type_of(output.term)
            schema = Schema((*schema.attributes, Column(output.name, kind)))
        return schema

    def entry(self, space: str) -> str:
        """The node at which messages of the space come in."""
        apart = space in self.graph.derived or self.graph.where(space) is not None
        return publication_point(space) if apart else space


# A NUL stands in no name: so no space of the user can be taken for a point.
def publication_point(space: str) -> str:
    return f"{space}\0p"


def subscription_point(space: str) -> str:
    return f"{space}\0s"


def rejection_point(space: str) -> str:
    return f"{space}\0rejected"


def node_name(node: str) -> str:
    """A node as it is shown: `Combined_p`, `Combined_s`."""
    return node.replace("\0", "_")
