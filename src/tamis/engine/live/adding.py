"""Many subscriptions added at once."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tamis.engine.ground.ids import Id, check_id
from tamis.engine.live.generation import Contents
from tamis.engine.live.id_table import refuse_taken
from tamis.errors import SelectorError, SubscriptionError

OnError = Callable[[Id, str, SelectorError | SubscriptionError], None]


def add_all(contents: Contents, given: list[Id], texts: list[str], on_error: OnError | None) -> int:
    """Add the good ones, and count them; see `Matcher.add_many`."""
    ids: dict[Id, str] = {}
    templates, sizes, keys = array("i"), array("q"), array("q")
    read, fresh = contents.intake.read, not contents.slots  # nothing is there that could be taken
    kind = type(given[0]) if given and fresh else None  # while all are of one, no two twins
    for id, selector in zip(given, texts, strict=True):
        try:
            if type(id) is kind:
                check_id(id)
                if id in ids:
                    refuse_taken(contents.slots, id, ids)
            else:
                kind = None
                refuse_taken(contents.slots, id, ids)
            template, own = read(selector)
        except (SelectorError, SubscriptionError) as error:
            if on_error is None:
                raise
            on_error(id, selector, error)
            continue
        ids[id] = selector
        templates.append(template)
        sizes.append(len(own))
        keys.extend(own)
    if on_error is not None:  # it may have changed the matcher
        for id in ids:
            refuse_taken(contents.slots, id, {})
    if ids:
        contents.append(list(ids), list(ids.values()), templates, sizes, keys)
    return len(ids)
