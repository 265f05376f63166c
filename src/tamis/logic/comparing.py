"""Two values compared: three-valued, None where a side is undefined; unlike types compare false."""

from __future__ import annotations

from typing import Any

from tamis.schema import type_of


def compare(left: object, op: str, right: object) -> bool | None:
    if left is None or right is None:
        return None
    a, b = type_of(left), type_of(right)
    if a is None or b is None or not a.like(b):
        return False
    x: Any = left
    y: Any = right
    match op:
        case "=":
            return bool(x == y)
        case "<>":
            return bool(x != y)
        case "<":
            return bool(x < y)
        case "<=":
            return bool(x <= y)
        case ">":
            return bool(x > y)
    return bool(x >= y)


def text_test(left: object, op: str, right: object) -> bool | None:
    if left is None or right is None:
        return None
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    match op:
        case "CONTAINS":
            return right in left
        case "WITHIN":
            return left in right
        case "STARTS WITH":
            return left.startswith(right)
    return left.endswith(right)
