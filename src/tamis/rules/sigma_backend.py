"""A backend for pySigma that builds conditions; as text it gives selectors.

Sigma has two truth values, and compares text without case unless a rule says `cased`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

from sigma.conversion.base import Backend
from sigma.processing.pipeline import ProcessingPipeline
from sigma.types import (
    CompareOperators,
    SigmaCasedString,
    SigmaString,
    SpecialChars,
)

from tamis.errors import RuleError
from tamis.language import (
    Attribute,
    Call,
    Compare,
    Condition,
    Constant,
    IsNull,
    Literal,
    Regex,
    Text,
    canonical,
)
from tamis.rules.conditions import (
    ONE,
    all_of,
    any_of,
    defined,
    equal,
    in_cidr,
    like,
    refuted,
    string,
    whole_number,
)
from tamis.rules.conditions import number as checked
from tamis.schema import Schema, Shape, Type

_SIGNS = {SpecialChars.WILDCARD_MULTI: None, SpecialChars.WILDCARD_SINGLE: ONE}
_COMPARISONS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_PARTS = ("minute", "hour", "day", "month", "year")


class TamisBackend(Backend):
    """`keywords`: the attribute that values without a field are looked for in.

    `schema`: with one, comparisons with values of another type are false, and values without a
    field are looked for in all its strings.
    """

    name: ClassVar[str] = "Tamis selectors"
    formats: ClassVar[dict[str, str]] = {"default": "selectors", "jsonl": "subscriptions"}
    identifier: ClassVar[str] = "tamis"
    requires_pipeline: ClassVar[bool] = False
    correlation_methods: ClassVar[dict[str, str] | None] = None

    def __init__(
        self,
        processing_pipeline: ProcessingPipeline | None = None,
        collect_errors: bool = False,
        keywords: str | None = None,
        schema: Schema | None = None,
        **options: Any,
    ) -> None:
        super().__init__(processing_pipeline, collect_errors, **options)
        self.keywords, self.schema = keywords, schema

    # --- how conditions are joined --------------------------------------------

    def convert_condition_or(self, cond: Any, state: Any) -> Condition:
        return any_of(self._parts(cond, state))

    def convert_condition_and(self, cond: Any, state: Any) -> Condition:
        return all_of(self._parts(cond, state))

    def _parts(self, cond: Any, state: Any) -> Iterable[Condition]:
        parts = [self.convert_condition(part, state) for part in cond.args]
        return [part for part in parts if part is not None]

    def convert_condition_not(self, cond: Any, state: Any) -> Condition | None:
        part = self.convert_condition(cond.args[0], state)
        return None if part is None else refuted(part)

    def decide_convert_condition_as_in_expression(self, cond: Any, state: Any) -> bool:
        return False

    def convert_condition_as_in_expression(self, cond: Any, state: Any) -> Condition:
        return self.convert_condition_or(cond, state)

    # --- a field and a value --------------------------------------------------

    def convert_condition_field_eq_val_str(self, cond: Any, state: Any) -> Condition:
        return self._text(cond.field, cond.value, any_case=True)

    def convert_condition_field_eq_val_str_case_sensitive(self, cond: Any, state: Any) -> Condition:
        return self._text(cond.field, cond.value, any_case=False)

    def _text(self, field: str, value: SigmaString, any_case: bool) -> Condition:
        parts, kind = _parts_of(value, field), self._type(field)
        if kind not in (None, Type.STRING):
            return self._of_other_type(field, kind, parts)
        if set(map(type, parts)) <= {str}:
            return self._same_text(field, "".join(parts), any_case, kind)
        return like(Attribute(field), *parts, any_case=any_case)

    def _same_text(self, field: str, text: str, any_case: bool, kind: Type | None) -> Condition:
        """Equality; without a schema a number may stand there as a number, too."""
        term = Attribute(field)
        if kind is None and (value := whole_number(text)) is not None:
            return equal(term, [value, text])
        if not any_case or text == text.swapcase():
            return equal(term, [text])
        return like(term, text, any_case=True)

    def _of_other_type(self, field: str, kind: Type | None, parts: list[Any]) -> Condition:
        """A number or a truth value in quotes is what it says."""
        text = "".join(parts) if set(map(type, parts)) <= {str} else ""
        if kind is Type.BOOL and text.lower() in ("true", "false"):
            return equal(Attribute(field), [text.lower() == "true"])
        if kind is not None and kind.numeric and (value := whole_number(text)) is not None:
            return equal(Attribute(field), [value])
        return Constant(False)

    def convert_condition_field_eq_val_num(self, cond: Any, state: Any) -> Condition:
        value, kind = checked(cond.value.number, cond.field), self._type(cond.field)
        if kind is None:
            return equal(Attribute(cond.field), [value, str(value)])
        if kind is Type.STRING:
            return equal(Attribute(cond.field), [str(value)])
        return equal(Attribute(cond.field), [value]) if kind.numeric else Constant(False)

    def convert_condition_field_eq_val_bool(self, cond: Any, state: Any) -> Condition:
        term, value, kind = Attribute(cond.field), cond.value.boolean, self._type(cond.field)
        one, text = equal(term, [value]), like(term, str(value).lower(), any_case=True)
        forms = {None: any_of([one, text]), Type.BOOL: one, Type.STRING: text}
        return forms.get(kind, Constant(False))

    def convert_condition_field_eq_val_re(self, cond: Any, state: Any) -> Condition:
        return self._regex(cond.field, cond.value)

    def _regex(self, field: str, value: Any) -> Condition:
        if value.contains_placeholder():
            _fail("placeholders need a pipeline", "expand", field)
        if self._type(field) not in (None, Type.STRING):
            return Constant(False)
        flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
        pattern = string(str(value.regexp), field)
        return Regex(Attribute(field), f"(?{flags}){pattern}" if flags else pattern)

    def convert_condition_field_eq_val_cidr(self, cond: Any, state: Any) -> Condition:
        if self._type(cond.field) not in (None, Type.STRING):
            return Constant(False)
        return in_cidr(str(cond.value.network), cond.field)(Attribute(cond.field))

    def convert_condition_field_compare_op_val(self, cond: Any, state: Any) -> Condition:
        value, kind = checked(cond.value.number.number, cond.field), self._type(cond.field)
        if cond.value.op is CompareOperators.NEQ:
            return refuted(self._equal_number(cond.field, value, kind))
        if kind is not None and not kind.numeric:
            return Constant(False)
        op: Any = _COMPARISONS[cond.value.op.name]
        return Compare(Attribute(cond.field), op, Literal.of(value))

    def _equal_number(self, field: str, value: int | float, kind: Type | None) -> Condition:
        fits = kind is None or kind.numeric
        return equal(Attribute(field), [value]) if fits else Constant(False)

    def convert_condition_field_eq_field(self, cond: Any, state: Any) -> Condition:
        ours, other = Attribute(cond.field), Attribute(cond.value.field)
        left, right = Call("casefold", (ours,)), Call("casefold", (other,))
        if cond.value.starts_with and cond.value.ends_with:
            return Text(left, "CONTAINS", right)
        if cond.value.starts_with:
            return Text(left, "STARTS WITH", right)
        if cond.value.ends_with:
            return Text(left, "ENDS WITH", right)
        kinds = {self._type(cond.field), self._type(cond.value.field)}
        if kinds == {Type.STRING}:
            return Compare(left, "=", right)
        if None not in kinds:
            return Compare(ours, "=", other)
        return any_of([Compare(ours, "=", other), Compare(left, "=", right)])

    def convert_condition_field_eq_val_null(self, cond: Any, state: Any) -> Condition:
        return IsNull(Attribute(cond.field))

    def convert_condition_field_exists(self, cond: Any, state: Any) -> Condition:
        return defined(Attribute(cond.field))

    def convert_condition_field_not_exists(self, cond: Any, state: Any) -> Condition:
        return IsNull(Attribute(cond.field))

    def convert_condition_field_eq_val_timestamp_part(self, cond: Any, state: Any) -> Condition:
        part = cond.value.timestamp_part.name.lower()
        if part not in _PARTS:
            _fail(f"the language has no function for the {part}", part, cond.field)
        if self._type(cond.field) is not Type.TIMESTAMP:
            what = f"{part} needs a timestamp: give a schema in which {cond.field} is one"
            _fail(what, part, cond.field)
        return equal(Call(part, (Attribute(cond.field),)), [cond.value.number])

    def convert_condition_field_eq_query_expr(self, cond: Any, state: Any) -> Condition:
        _fail("an expression of another query language", "query expression", cond.field)

    # --- a value without a field ----------------------------------------------

    def convert_condition_val_str(self, cond: Any, state: Any) -> Condition:
        parts, any_case = _parts_of(cond.value, ""), not isinstance(cond.value, SigmaCasedString)
        inner = [None, *parts, None]
        return any_of(like(Attribute(n), *inner, any_case=any_case) for n in self._raw())

    def convert_condition_val_num(self, cond: Any, state: Any) -> Condition:
        return any_of(like(Attribute(n), None, str(cond.value), None) for n in self._raw())

    def convert_condition_val_re(self, cond: Any, state: Any) -> Condition:
        return any_of(self._regex(name, cond.value) for name in self._raw())

    def convert_condition_query_expr(self, cond: Any, state: Any) -> Condition:
        _fail("an expression of another query language", "query expression", "")

    def _raw(self) -> list[str]:
        if self.keywords is not None:
            return [self.keywords]
        schema = self.schema.items() if self.schema else ()
        plain = (name for name, a in schema if a.shape is Shape.SCALAR)
        names = [name for name in plain if self._type(name) is Type.STRING]
        if not names:
            what = "values without a field: name the attribute to look in, or give a schema"
            _fail(what, "keywords", "")
        return names

    def _type(self, field: str) -> Type | None:
        """The type of a field of the schema; None without one."""
        if self.schema is None:
            return None
        if field not in self.schema:
            _fail(f"the schema has no attribute {field}", "unknown attribute", field)
        if self.schema[field].shape is not Shape.SCALAR:
            _fail(f"{field} is a {self.schema[field].shape.value}", "list or map", field)
        return self.schema[field].type

    # --- correlations, and what comes out --------------------------------------

    def convert_correlation_rule(self, rule: Any, *rest: Any, **options: Any) -> Any:
        kind = rule.type.name.lower()
        _fail("correlations look at more than one event", f"correlation {kind}", "")

    def _correlation(self, *rest: Any, **options: Any) -> NoReturn:
        _fail("correlations look at more than one event", "correlation", "")

    convert_correlation_event_count_rule = _correlation
    convert_correlation_value_count_rule = _correlation
    convert_correlation_temporal_rule = _correlation
    convert_correlation_temporal_ordered_rule = _correlation
    convert_correlation_extended_temporal_rule = _correlation
    convert_correlation_extended_temporal_ordered_rule = _correlation
    convert_correlation_value_sum_rule = _correlation
    convert_correlation_value_avg_rule = _correlation
    convert_correlation_value_percentile_rule = _correlation
    convert_correlation_value_median_rule = _correlation

    def finish_query(self, rule: Any, query: Any, state: Any) -> Any:
        return query

    def finalize_query(
        self, rule: Any, query: Any, index: int, state: Any, output_format: str
    ) -> Any:
        return canonical(query)

    def finalize_output_default(self, queries: list[Any]) -> list[Any]:
        return queries


def _parts_of(value: SigmaString, field: str) -> list[Any]:
    """Texts and signs of a pattern."""
    parts: list[Any] = []
    for part in value.s:
        if isinstance(part, str):
            parts.append(string(part, field))
        elif isinstance(part, SpecialChars):
            parts.append(_SIGNS[part])
        else:
            _fail("placeholders need a pipeline", "expand", field)
    return parts or [""]


def _fail(what: str, construct: str, at: str) -> NoReturn:
    raise RuleError(what, construct=construct, at=at)
