"""Selects, transforms and lookups on frames whose columns are attributes of a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.flow.model.elements import Lookup, Output, Rule, Select, Step
from tamis.flow.model.expressions import TRUE, lookup_calls, parts_of
from tamis.language import Call, Condition, Term
from tamis.schema import Attribute as Attr
from tamis.schema import Schema, Type
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.native import Translation, Value
from tamis.spark.native.native_values import cases

_KEY, _VALUE = "__tamis_key{}__", "__tamis_value{}__"
_RULE = "__tamis_rule__"


@dataclass(frozen=True, slots=True)
class Tables:
    """The lookups of a flow, each as a frame with key and value."""

    lookups: Mapping[str, Lookup]
    frames: Mapping[str, DataFrame]

    def joined(
        self, frame: DataFrame, name: str, key: Column, number: int, *, borrowed: bool
    ) -> tuple[DataFrame, Value]:
        """The frame with what lookup `name` has for the key: a broadcast join.

        `number` tells the joins of a frame apart. `borrowed`: a Python worker makes the key.
        """
        mine, value = _KEY.format(number), _VALUE.format(number)
        table = self.frames[name].select(F.col("key").alias(mine), F.col("value").alias(value))
        if borrowed:  # a join cannot ask a Python worker
            frame, key = frame.withColumn(f"{mine}m", key), F.col(f"{mine}m")
        joined = frame.join(F.broadcast(table), key == F.col(mine), "left")
        return joined, Value(F.col(value), self.lookups[name].value)


@dataclass(frozen=True, slots=True)
class Flowing:
    """A frame of messages on their way. `calls` are the lookups that were joined to it.

    `values` are attributes that are not simply columns: see `with_terms`. Only doubles of sources
    can be NaN: what a term makes is NULL then.
    """

    frame: DataFrame
    schema: Schema
    tables: Tables
    calls: Mapping[Call, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    may_be_nan: bool = False
    _made: list[Translation] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def translation(self) -> Translation:
        """One for all conditions and terms: what they share is made once."""
        if not self._made:
            made = Translation(self._find, "sql", self.schema, self.calls, python=True)
            self._made.append(made)
        return self._made[0]

    def _find(self, name: str) -> Value | None:
        if name in self.values:
            return self.values[name]
        if name not in self.schema:
            return None
        kind = self.schema[name].type
        nan = self.may_be_nan and kind is Type.DOUBLE
        return Value(F.col(quoted(name)), kind, may_be_nan=nan)

    def selected(self, condition: Condition) -> Flowing:
        """The messages for which the condition is true; lookups that it asks are joined first."""
        ready = self.looked_up([condition])
        return replace(ready, frame=ready.frame.where(ready.translation.condition(condition)))

    def looked_up(
        self, nodes: Iterable[Condition | Term], when: Mapping[Call, Column] | None = None
    ) -> Flowing:
        """With every lookup of the nodes joined: a broadcast join, one for each call.

        `when` says in which rows the value of a call is needed.
        """
        found = self
        for call in dict.fromkeys(call for node in nodes for call in lookup_calls(node)):
            if call not in found.calls:
                found = found._joined(call, (when or {}).get(call))
        return found

    def _joined(self, call: Call, when: Column | None) -> Flowing:
        key = self.translation.term(call.arguments[0])
        key = key if when is None else F.when(when, key)
        frame, value = self.tables.joined(
            self.frame, call.name, key, len(self.calls), borrowed=borrows(call)
        )
        return replace(self, frame=frame, calls={**self.calls, call: value})

    def with_terms(self, outputs: Sequence[Output], types: Schema, *, inline: bool) -> Flowing:
        """With further attributes, in order: one may use those before it.

        Inline, they are expressions, which Spark computes where they are used: right for rows
        that pass few operators. Else each is a column.
        """
        found = self
        for output in outputs:
            found = found.looked_up([output.term])
            kind = types[output.name].type
            if inline and not borrows(output.term):
                value, frame = found.translation.value(output.term), found.frame
            else:
                column = found.translation.term(output.term)
                value, frame = (
                    Value(F.col(output.name), kind),
                    found.frame.withColumn(output.name, column),
                )
            schema = Schema((*found.schema.attributes, Attr(output.name, kind)))
            values = {**found.values, output.name: value}
            found = replace(found, frame=frame, schema=schema, values=values)
        return found

    def transformed(self, rules: tuple[Rule, ...], schema: Schema) -> Flowing:
        """What the first rule that matches makes of each message; without one it is gone."""
        nodes = [*(r.guard for r in rules if r.guard is not None), *_terms(rules)]
        ready = self.looked_up(nodes)
        if len(rules) == 1:
            frame = ready.frame
            if rules[0].guard is not None:
                frame = frame.where(ready.translation.condition(rules[0].guard))
        else:
            chosen = ready.chosen(rules)
            frame = ready.frame.withColumn(_RULE, chosen).where(F.col(_RULE).isNotNull())
        names = [output.name for output in rules[0].outputs]
        columns = [ready.by_rule(rules, name).alias(name) for name in names]
        return Flowing(frame.select(*columns), schema, self.tables)

    def chosen(self, rules: tuple[Rule, ...]) -> Column:
        """The number of the rule that matches, NULL where none does."""
        translation = self.translation
        guards = [TRUE if rule.guard is None else rule.guard for rule in rules]
        return cases([(translation.condition(g), F.lit(n)) for n, g in enumerate(guards)])

    def by_rule(self, rules: tuple[Rule, ...], name: str) -> Column:
        """The column of an output; where there are several rules, `chosen` is a column."""
        translation = self.translation
        terms = [next(o.term for o in rule.outputs if o.name == name) for rule in rules]
        if all(term == terms[0] for term in terms):
            return translation.term(terms[0])
        return cases(
            [(F.col(_RULE) == number, translation.term(t)) for number, t in enumerate(terms)]
        )

    def stepped(self, step: Step, after: Schema) -> Flowing:
        if isinstance(step, Select):
            return self.selected(step.condition).plain()
        return self.transformed(step.rules, after)

    def plain(self) -> Flowing:
        """Without the columns of lookups."""
        kept = self.frame.select(*(quoted(name) for name in self.schema))
        return replace(self, frame=kept, calls={})


def borrows(term: Term) -> bool:
    """Whether a Python worker computes it: that must not happen twice."""
    return any(isinstance(p, Call) and p.name in ("lower", "upper") for p in parts_of(term))


def _terms(rules: tuple[Rule, ...]) -> list[Term]:
    return [output.term for rule in rules for output in rule.outputs]
