"""A rule that was imported, and one that was refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tamis.errors import RuleError, SelectorError
from tamis.language import Condition, Limits, canonical, check, parse
from tamis.schema import Schema


@dataclass(frozen=True, slots=True)
class About:
    """What a rule says about itself; columns that a match can carry."""

    title: str | None = None
    author: str | None = None
    level: str | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as a subscription. `place` is its file and its place in there."""

    id: str
    selector: str
    place: str
    about: About = About()

    def row(self) -> dict[str, object]:
        """A line of a file of subscriptions."""
        about = self.about
        columns = {"title": about.title, "author": about.author, "level": about.level}
        rest = {"tags": list(about.tags), "owner": about.owner, "source": self.place}
        return {"id": self.id, "selector": self.selector, **columns, **rest}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that was not imported: its place, its name, the construct, and the reason."""

    place: str
    name: str
    construct: str
    reason: str

    def __str__(self) -> str:
        named = f" {self.name!r}" if self.name else ""
        return f"{self.place}:{named} {self.reason}"

    def row(self) -> dict[str, object]:
        names = {"source": self.place, "name": self.name}
        return {**names, "construct": self.construct, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Found:
    """A rule as it was found. `name` is its own, if it has one that is stable."""

    place: str
    body: object
    name: str = ""
    about: About = About()


@dataclass(slots=True)
class Imported:
    """All rules of a place, in its order, and those that were refused."""

    rules: list[Rule] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def summary(self) -> str:
        """How many were imported, and of the others how many for which construct."""
        whole = len(self.rules) + len(self.refused)
        lines = [f"{len(self.rules):,} of {whole:,} imported"]
        counts = Counter(one.construct for one in self.refused)
        lines += [f"  {count:,} refused: {construct}" for construct, count in counts.most_common()]
        return "\n".join(lines)


def settle(condition: Condition, schema: Schema | None, limits: Limits) -> str:
    """The text of the condition, which anyone can read with the same limits and schema."""
    try:
        text = canonical(condition)
        parse(text, limits=limits)
        check(condition, schema, text=text)
    except SelectorError as error:
        kind = "regex" if "RE2" in error.what else "types"
        construct = f"limit {error.limit}" if error.limit else kind
        raise RuleError(error.what, construct=construct, hint=error.hint) from None
    return text


class Names:
    """Ids that stay the same from import to import, each given once.

    A rule keeps its own name. One without gets a digest of its selector, so that it is the same
    rule as long as it asks for the same; a second one like it gets a number as well.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def of(self, name: str, selector: str) -> str:
        if name:
            if name in self.taken:
                raise RuleError(f"another rule has the id {name!r}", construct="id used twice")
            self.taken.add(name)
            return name
        digest = hashlib.sha256(selector.encode()).hexdigest()[:16]
        chosen, copies = digest, 1
        while chosen in self.taken:
            copies += 1
            chosen = f"{digest}-{copies}"
        self.taken.add(chosen)
        return chosen


def texts(given: object) -> tuple[str, ...]:
    """The strings of a list; of one string, itself."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, dict | bytes):
        return tuple(one for one in given if isinstance(one, str))
    return ()


def text(given: object) -> str | None:
    """The string, or None for what is none or empty."""
    return given if isinstance(given, str) and given else None
