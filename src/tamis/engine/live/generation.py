"""The subscriptions of a matcher, from selectors to segments.

Numbers of subscriptions ("slots"), of constants and of templates are given once and never again,
which is why readers need no lock. So contents in which most is dead are *compacted*: all that
lives is written into new ones, which take their place in one moment.
"""

from __future__ import annotations

import logging
import threading
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from tamis.critical_section import atomic
from tamis.diagram.packed import FALSE
from tamis.engine.ground.ids import Id
from tamis.engine.ground.layout import I4
from tamis.engine.ground.sources import Source
from tamis.engine.live.background import ENDING
from tamis.engine.live.id_array import IdNames
from tamis.engine.live.id_table import Slots
from tamis.engine.live.merging import Merging
from tamis.engine.paths.segment import Segment, compile_segment
from tamis.engine.reading.intake import Intake
from tamis.jit.first_use import NotCompiledError

_log = logging.getLogger("tamis")
_NEVER = array("i", [FALSE]).tobytes()
SURPLUS = 1_000  # slots of removed subscriptions that are put up with, however few are alive
_AT_ONCE = 200  # selectors that are read in one go while others want to work too
_PAUSE = 0.002  # seconds between these
_FAILED = "subscription %r cannot be compiled and matches nothing; please report its selector: %s"

Keeper = Callable[[Intake], Merging]  # makes what keeps the state of subscriptions


class Contents:
    """Writers hold `lock`; readers take `merging.state`, and the names of its slots, from one and
    the same contents."""

    def __init__(self, intake: Intake, keeper: Keeper | None = None) -> None:
        self.intake = intake
        self.ids: list[Id] = []
        self.texts: list[str] = []
        self.slots = Slots(self.ids)
        self.names = IdNames(self.ids)
        self.merging = keeper(intake) if keeper else Merging(self.compile, self.compile_sound)

    @property
    def lock(self) -> threading.RLock:
        return self.merging.lock

    def compile(self, source: Source) -> Segment:
        return compile_segment(self.intake.vocabulary, self.intake.templates, source)

    def compile_sound(self, source: Source) -> Segment:
        """As `compile`, of a few that readers meet first. One that cannot be compiled, which is an
        error of the engine, is logged and matches nothing; the others are not affected."""
        try:
            return self.compile(source)
        except (MemoryError, NotCompiledError):
            raise  # no subscription is at fault: the next reader tries again
        except Exception:
            with self.lock:
                never = self.intake.templates.number(_NEVER, ())
            for at in range(len(source)):
                try:
                    self.compile(source.only(at))
                except Exception:
                    _log.exception(_FAILED, self.ids[source.slot[at]], self.texts[source.slot[at]])
                    source = source.with_constant(at, never)
            return self.compile(source)

    def put(self, id: Id, selector: str, template: int, keys: Sequence[int]) -> None:
        """Add one subscription, in place of the one of that id, as its selector was read."""
        sizes, old = array("q", [len(keys)]), self.slots.get(id)
        self.append([id], [selector], array("i", [template]), sizes, keys, old)

    def append(
        self,
        ids: Sequence[Id],
        texts: Sequence[str],
        templates: Sequence[int],
        sizes: Sequence[int],
        keys: Sequence[int],
        instead_of: int = -1,
    ) -> None:
        """Subscribe `ids`. Readers find the names of slots before the slots; should compiling
        fail, or be interrupted, nothing has changed."""
        first = len(self.ids)
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        slots = np.arange(first, first + len(ids), dtype=np.int32)
        source = Source(slots, np.array(templates, np.int32), offsets, np.array(keys, np.int64))
        state = self.merging.with_more(source, sum(map(len, texts)), instead_of=instead_of)
        with atomic():
            self.ids.extend(ids)
            self.texts.extend(texts)
            self.merging.show(state)
            if instead_of >= 0:
                self.slots.pop(ids[0])  # it moves to the end
            self.slots.add(ids, first)

    def remove(self, id: Id) -> None:
        state = self.merging.without(self.slots[id])
        with atomic():
            self.merging.show(state)
            self.slots.pop(id)

    @property
    def worn(self) -> bool:
        """Whether most of it is dead."""
        return len(self.ids) - len(self.slots) > max(SURPLUS, len(self.slots))

    def carry(self, old: Contents, known: I4, now: I4) -> None:
        """Follow the contents that these are to replace: slots `known` of theirs are here, slots
        `now` are alive. Takes its time, unless the process is about to end."""
        with self.lock:
            for slot in np.setdiff1d(known, now, assume_unique=True).tolist():
                self.remove(old.ids[slot])
        new = np.setdiff1d(now, known, assume_unique=True).tolist()
        templates, sizes, keys = array("i"), array("q"), array("q")
        for i, slot in enumerate(new):
            template, own = self.intake.read(old.texts[slot])
            templates.append(template)
            sizes.append(len(own))
            keys.extend(own)
            if i % _AT_ONCE == _AT_ONCE - 1 and ENDING.wait(_PAUSE):
                return
        if new:
            ids, texts = [old.ids[s] for s in new], [old.texts[s] for s in new]
            with self.lock:
                self.append(ids, texts, templates, sizes, keys)
