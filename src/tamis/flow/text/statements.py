"""Spaces, lookups and arcs: one function reads one kind of statement."""

from __future__ import annotations

from typing import NoReturn

from tamis.flow.model.elements import Arc, Lookup, Output, Rule, Select, Space, Step, Transform
from tamis.flow.text.flow_parser import StatementParser
from tamis.language import Attribute
from tamis.language.lexer import unquote


def space(p: StatementParser, at: int) -> Space:
    """`space NAME(column: type, ...) [where condition]`."""
    name, _ = p.identifier("the name of the space")
    p.title = f"space {name}"
    columns = p.columns()
    if len(columns) > p.flow_limits.columns:
        raise p.flow_limits.crossed(
            "columns", f"{len(columns):,} columns", where=p.title, text=p.text, at=at
        )
    where = p.whole_condition() if p.word("where") else None
    return Space(name, columns, where, at)


def lookup(p: StatementParser, at: int) -> Lookup:
    """`lookup NAME(type) -> type [from 'file']`."""
    name, _ = p.identifier("the name of the lookup")
    p.title = f"lookup {name}"
    p.need("(", "and the type of the key", f"write {name}(string) -> string")
    key = p.type()
    p.need(")", "after the type of the key", "a lookup has one key")
    p.need("->", "and the type of the value")
    value = p.type()
    source = None
    if p.word("from"):
        if p.kinds[p.i] != "string":
            p.fail_here("expected the name of a file", "write from 'names.csv'")
        source = unquote(p.take()[1])
    return Lookup(name, key, value, source, at)


def arc(p: StatementParser, at: int) -> Arc:
    """`SOURCE -> TARGET [: step; step ...]`."""
    source, _ = p.identifier("space, lookup, test, or an arc: NAME -> NAME")
    if p.kinds[p.i] != "->":
        _no_statement(p, source, at)
    p.i += 1
    target, _ = p.identifier("the name of the space that the arc leads to")
    p.title = f"arc {source} -> {target}"
    steps: tuple[Step, ...] = ()
    if p.sign(":"):
        found = [_step(p)]
        while p.sign(";"):
            found.append(_step(p))
        steps = tuple(found)
    elif p.kinds[p.i] != "end":
        p.fail_here(
            "expected : and the steps of the arc", "write : select ..., or : [...] => [...]"
        )
    return Arc(source, target, steps, at)


def _no_statement(p: StatementParser, word: str, at: int) -> NoReturn:
    from tamis.flow.text.flow_reader import STATEMENTS
    from tamis.language.types import nearest

    hint = (
        nearest(word, STATEMENTS) or "an arc is written A -> B; a line that continues is indented"
    )
    p.fail(f"no statement begins with {word[:40]}", at, hint)


def _step(p: StatementParser) -> Step:
    at = p.at
    if p.word("select"):
        return Select(p.whole_condition(), at)
    if p.kinds[p.i] != "[":
        p.fail_here("expected select or a rule", "write select price > 5, or [a, b] => [a, c := b]")
    rules = [_rule(p)]
    while p.kinds[p.i] == "OR" and p.values[p.i] == "|":
        p.i += 1
        rules.append(_rule(p))
    return Transform(tuple(rules), at)


def _rule(p: StatementParser) -> Rule:
    at = p.at
    p.need("[", "and the names of the pattern")
    names, rest = _pattern(p)
    guard = p.whole_condition() if p.word("when") else None
    p.need("]", "after the pattern", _pattern_hint(p))
    if p.kinds[p.i] == "->":
        p.fail_here("expected => between pattern and assignments", "write =>; -> leads to a space")
    p.need("=>", "and the assignments")
    p.need("[", "and the assignments")
    outputs, carry = _outputs(p)
    p.need("]", "after the assignments", _output_hint(p))
    return Rule(names, outputs, guard, rest, carry, at)


def _pattern(p: StatementParser) -> tuple[tuple[str, ...], bool]:
    names: list[str] = []
    while True:
        if p.sign("..."):
            return tuple(names), True
        names.append(p.identifier("a name of the pattern, or ...")[0])
        if not p.sign(","):
            return tuple(names), False


def _pattern_hint(p: StatementParser) -> str:
    if p.kinds[p.i] in ("=", ":=", "<", ">", "<=", ">=", "<>"):
        return "a pattern only names attributes: put conditions after when"
    return ""


def _outputs(p: StatementParser) -> tuple[tuple[Output, ...], bool]:
    outputs: list[Output] = []
    while True:
        if p.sign("..."):
            return tuple(outputs), True
        outputs.append(_output(p))
        if not p.sign(","):
            return tuple(outputs), False


def _output(p: StatementParser) -> Output:
    start = p.i
    name, at = p.identifier("a name to assign to, or ...")
    if p.sign(":="):
        return Output(name, p.whole_term(), at)
    if p.kinds[p.i] == "=":
        p.fail_here("= compares; an assignment is written :=", f"write {name} := ...")
    if p.kinds[p.i] not in (",", "]", "end"):
        _fail_unnamed(p, start)
    return Output(name, Attribute(name, at), at)


def _fail_unnamed(p: StatementParser, start: int) -> NoReturn:
    """A term without a name: `price * vol`, perhaps followed by SQL's AS."""
    if p._is_word(p.i, "as"):
        p.fail("an assignment puts the name first", p.at, f"write name := {p.values[start]}")
    p.i = start
    at = p.at
    p.whole_term()
    if p._is_word(p.i, "as"):
        p.fail("an assignment puts the name first, without AS", p.at, "write name := ...")
    p.fail("a value needs a name", at, "write name := ...")


def _output_hint(p: StatementParser) -> str:
    if p._is_word(p.i, "as"):
        return "an assignment puts the name first, without AS: write name := ..."
    if p.kinds[p.i] == ",":
        return "... stands last"
    return ""
