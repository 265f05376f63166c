"""The size and height of a tree, found without recursion: the tree may be too deep for Python."""

from __future__ import annotations

from tamis.language.tree import (
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    Condition,
    In,
    IsNull,
    Like,
    Negate,
    Not,
    Or,
    Regex,
    Term,
    Text,
)

Node = Condition | Term


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`; the constants of an IN list do not count."""
    match node:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
        case Compare(left, _, right) | Arithmetic(_, left, right) | Text(left, _, right):
            return (left, right)
        case Between(term, low, high):
            return (term, low, high)
        case In(term) | Like(term) | Regex(term) | IsNull(term) | Negate(term):
            return (term,)
        case Call(_, arguments):
            return arguments
    return ()


def height(node: Node) -> tuple[int, int]:
    """The number of steps from `node` down to its deepest leaf, and where that leaf stands."""
    level: list[Node] = [node]
    steps = 0
    while below := [child for one in level for child in children(one)]:
        level, steps = below, steps + 1
    return steps, level[0].at


def size(node: Node, stop: int) -> int:
    """The number of nodes of the tree; counting ends soon after `stop`."""
    count = 0
    waiting = [node]
    while waiting and count <= stop:
        count += 1
        waiting.extend(children(waiting.pop()))
    return count
