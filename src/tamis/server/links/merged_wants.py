"""What very many subscriptions want together: found out in a thread, as that takes long."""

from __future__ import annotations

import asyncio
import threading

from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.links.interests import Interests

_MERGED = 1_000  # subscriptions that are merged at a time; a router that stops waits for them


def filter_of(one: Subscription) -> tuple[str, str, str]:
    return one.filter.subjects, one.filter.selector, one.bound


async def merged(language: Language, held: list[Subscription]) -> Interests:
    """The interests of the subscriptions as they are now or later, by their names."""
    ending = threading.Event()
    try:
        return await asyncio.to_thread(_merged, language, held, ending)
    finally:
        ending.set()


def _merged(language: Language, held: list[Subscription], ending: threading.Event) -> Interests:
    found = Interests(language)
    for at in range(0, len(held), _MERGED):
        if ending.is_set():
            break
        found.put_many([(one.name, *filter_of(one)) for one in held[at : at + _MERGED]])
    return found
