"""`import_rules`: the rules of a place in another language as subscriptions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Literal, Protocol, cast

from tamis.errors import RuleError
from tamis.language import Condition, Limits
from tamis.rules.rule import Found, Imported, Names, Refusal, Rule, settle
from tamis.rules.shapes import Shapes
from tamis.schema import Schema

Language = Literal["eventbridge", "sns", "sigma", "sql", "elastic"]
Collation = Literal["binary", "nocase"]
LANGUAGES: tuple[Language, ...] = ("eventbridge", "sns", "sigma", "sql", "elastic")


class Importer(Protocol):
    """A module for one language: finds its rules, and says what one asks for."""

    found: Callable[[str], Iterator[Found | Refusal]]
    condition: Callable[[object, Shapes], Condition]


def importer(language: Language) -> Importer:
    if language not in LANGUAGES:
        raise ValueError(f"there is no language {language!r}: choose {', '.join(LANGUAGES)}")
    return cast(Importer, import_module(f"tamis.rules.{language}"))


def condition(
    language: Language,
    rule: object,
    *,
    schema: Schema | None = None,
    keywords: str | None = None,
    dialect: str | None = None,
    collation: Collation | None = None,
) -> Condition:
    """The condition of one rule, as JSON or YAML is read: a pattern, a policy, a query.

    It is for `sql` semantics. Raises RuleError for what cannot be said exactly.
    """
    return importer(language).condition(rule, Shapes(schema, keywords, dialect, collation))


def import_rules(
    language: Language,
    path: str | os.PathLike[str],
    *,
    schema: Schema | None = None,
    limits: Limits | None = None,
    keywords: str | None = None,
    dialect: str | None = None,
    collation: Collation | None = None,
) -> Imported:
    """The rules of a file or a folder, in its order; what cannot be said exactly is refused.

    `keywords`: the attribute that Sigma's values without a field are looked for in. `dialect`: of
    SQL, as sqlglot names it; `collation`: whether its texts compare with case.
    """
    shapes = Shapes(schema, keywords, dialect, collation)
    imported, names = Imported(), Names()
    module = importer(language)
    for one in module.found(os.fspath(path)):
        if isinstance(one, Refusal):
            imported.refused.append(one)
            continue
        try:
            selector = settle(module.condition(one.body, shapes), schema, limits or Limits())
            rule = Rule(names.of(one.name, selector), selector, one.place, one.about)
        except RuleError as error:
            refusal = Refusal(one.place, one.name, error.construct, str(error))
            imported.refused.append(refusal)
            continue
        imported.rules.append(rule)
    return imported
