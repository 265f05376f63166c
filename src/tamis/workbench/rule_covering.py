"""Subscriptions that another one covers: every message that they match, it matches too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tamis.engine import Id, Matcher

MOST_TRIED = 16  # other subscriptions that are tried for each


def covered(
    matcher: Matcher, advance: Callable[[int], None] = lambda done: None
) -> Iterator[tuple[Id, Id]]:
    """Pairs (covered, covering), one for each subscription for which one was found.

    Whatever covers a subscription matches every example of it, so one example leads to the few
    that can. Each pair is proved. Subscriptions that match the same messages are not told.
    """
    for number, id in enumerate(matcher):
        advance(number)
        example = matcher.example(id)
        if example is None:
            continue
        others = [other for other in matcher.match(example) if other != id]
        for other in others[:MOST_TRIED]:
            if matcher.covers(other, id) and not matcher.covers(id, other):
                yield id, other
                break
