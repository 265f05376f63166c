"""The selector language: text to condition tree and back."""

from tamis.language.limits import Limits
from tamis.language.parsing import Dialect, parse
from tamis.language.printer import canonical
from tamis.language.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Predicate,
    Regex,
    Term,
    Text,
    attributes,
    terms,
)
from tamis.language.types import check

__all__ = [
    "And",
    "Arithmetic",
    "Attribute",
    "Between",
    "Call",
    "Compare",
    "Condition",
    "Constant",
    "Dialect",
    "In",
    "IsNull",
    "Like",
    "Limits",
    "Literal",
    "Negate",
    "Not",
    "Or",
    "Predicate",
    "Regex",
    "Term",
    "Text",
    "attributes",
    "canonical",
    "check",
    "parse",
    "terms",
]
