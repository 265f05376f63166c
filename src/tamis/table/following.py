"""A matcher that goes with the versions of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.engine.ground.layout import U1
from tamis.engine.ground.sound import demand
from tamis.engine.matcher import Matcher
from tamis.engine.snapshot import checks
from tamis.engine.snapshot import file as container
from tamis.engine.snapshot.codecs import Texts
from tamis.engine.snapshot.file import Arrays, Parts
from tamis.engine.snapshot.loading import matcher_of
from tamis.engine.snapshot.saving import arrays_of, living
from tamis.errors import SnapshotError
from tamis.logic import Lookups
from tamis.table.settings import Settings
from tamis.table.table_changes import Changes, IdKind, Net, Problem
from tamis.table.versions import Versions

if TYPE_CHECKING:
    import pyarrow as pa

_LITTLE = 1 << 18  # bytes of changes that are sooner applied than a snapshot is loaded
_SURPLUS = 10_000  # slots of removed subscriptions that are put up with
_TRIES = 5


@dataclass(slots=True)
class Subscribers:
    """The subscribers by slot of a matcher: saved ones, and more in memory."""

    saved: Texts = field(default_factory=lambda: Texts.of(()))
    known: U1 = field(default_factory=lambda: np.empty(0, np.uint8))
    more: list[str | None] = field(default_factory=list)
    _array: Any = None

    def __len__(self) -> int:
        return len(self.saved) + len(self.more)

    def array(self) -> pa.Array:
        """All of them, as Arrow strings."""
        import pyarrow as pa

        if self._array is None:
            self._array = self._saved_array()
        if len(self._array) < len(self):
            fresh = self.more[len(self._array) - len(self.saved) :]
            self._array = pa.concat_arrays([self._array, pa.array(fresh, pa.string())])
        return self._array

    def _saved_array(self) -> pa.Array:
        import pyarrow as pa

        valid = pa.py_buffer(np.packbits(self.known, bitorder="little"))
        offsets = pa.py_buffer(self.saved.offsets)
        buffers = [valid, offsets, pa.py_buffer(self.saved.data)]
        wide = pa.Array.from_buffers(pa.large_string(), len(self.saved), buffers)
        return wide.cast(pa.string())


@dataclass(slots=True)
class View:
    """A table at one version."""

    version: int
    matcher: Matcher
    ids: IdKind | None = None
    subscribers: Subscribers = field(default_factory=Subscribers)
    problems: Sequence[Problem] = ()

    def __post_init__(self) -> None:
        self.matcher._compacts = False  # subscribers stand by slot

    @property
    def surplus(self) -> int:
        """How many more slots than twice the subscriptions there are: those of removed ones."""
        return len(self.subscribers) - 2 * len(self.matcher)

    def rows(self) -> pa.Table:
        """The subscriptions: `id`, `selector` and `subscriber`, in the order of adding."""
        import pyarrow as pa

        slots = living(self.matcher._contents.merging.state)
        texts = [self.matcher._contents.texts[slot] for slot in slots.tolist()]
        ids = self.matcher.match_many([]).names.take(pa.array(slots))
        wanted = pa.int64() if self.ids == "int" else pa.string()
        columns = [ids.cast(wanted), texts, self.subscribers.array().take(pa.array(slots))]
        return pa.table(columns, names=["id", "selector", "subscriber"])

    def aside(self) -> pa.Table:
        """What was put aside: `id` (as a string), `selector` and `reason` of each."""
        return problem_rows(self.problems)

    def apply(self, net: Net, version: int) -> None:
        """Go on to a later version."""
        for id in net.gone:
            if id in self.matcher:
                self.matcher.remove(id)
        self.matcher.add_many((id, selector) for id, (selector, _) in net.put.items())
        self.subscribers.more.extend(subscriber for _, subscriber in net.put.values())
        self.problems = net.problems(self.problems)
        self.ids = net.ids or self.ids
        self.version = version


def problem_rows(problems: Sequence[Problem]) -> pa.Table:
    import pyarrow as pa

    columns = [[getattr(problem, name) for problem in problems] for name in Problem._fields]
    return pa.table([pa.array(c, pa.string()) for c in columns], names=list(Problem._fields))


class Follower:
    """Holds one version of a table at a time, and goes on to later ones in small steps.

    For one thread. A view that it gave is no longer good when it has given the next one.
    """

    def __init__(self, versions: Versions, settings: Settings, lookups: Lookups) -> None:
        self.versions, self.settings, self.lookups = versions, settings, lookups
        self._held: View | None = None

    def newest(self) -> int:
        return self.versions.newest(self._held.version if self._held else 0)

    def at(self, version: int | None = None) -> View:
        """The table as it was at the version, or as it is."""
        wanted = self.newest() if version is None else version
        for _ in range(_TRIES):
            try:
                return self._at(wanted)
            except FileNotFoundError:  # cleared away meanwhile, or never there
                self._held = None
                present = self.versions.present()
                if not present.oldest <= wanted <= present.newest:
                    break
        raise self.versions.missing(wanted)

    def _at(self, version: int) -> View:
        held, self._held = self._held, None  # a failure on the way leaves nothing half-changed
        if held is None or held.version != version:
            held = self._nearest(held, version)
            net = Net()
            for changes in self.versions.after(held.version, version):
                net.take(changes)
            held.apply(net, version)
        self._held = held
        return held

    def _nearest(self, held: View | None, version: int) -> View:
        """Where to start from: what is held, or a table in between."""
        present = self.versions.present()
        if not present.oldest <= version <= present.newest:
            raise FileNotFoundError
        base = present.base(version)
        if held is not None and held.version <= version:
            little = self.versions.size(held.version, version) <= _LITTLE
            if base <= held.version or (little and held.surplus <= _SURPLUS):
                return held
        return self._loaded(base)

    def _loaded(self, version: int) -> View:
        if version == 0:
            return self._empty()
        path = self.versions.path(version, "snapshot")
        if path.exists():
            try:
                return load(path, self.lookups, version)
            except SnapshotError as error:
                # It may have been cleared away meanwhile, or be of another Tamis.
                if path.exists() and not error.what.startswith("has format"):
                    raise
        return self.compiled(self.versions.read(version, "table"))

    def _empty(self) -> View:
        return View(0, self.settings.matcher(self.lookups), self.settings.ids)

    def compiled(self, table: Changes) -> View:
        """All subscriptions of a version, compiled anew."""
        view, net = self._empty(), Net()
        net.take(table)
        view.apply(net, table.version)
        return view


# --- compiled tables -----------------------------------------------------------


def save(view: View, path: Path) -> None:
    """Write the view, compiled, to one file that can be mapped."""
    view.matcher.settle()
    container.write(path, _arrays(view))


def _arrays(view: View) -> Iterator[tuple[str, Parts]]:
    assert len(view.matcher._contents.ids) == len(view.subscribers)
    yield from arrays_of(view.matcher)
    said = {"version": view.version, "ids": view.ids, "problems": view.problems}
    yield "table_meta", [np.frombuffer(json.dumps(said).encode(), np.uint8)]
    saved, known = view.subscribers.saved, view.subscribers.known
    more = Texts.of(text or "" for text in view.subscribers.more)
    yield "subscriber_bytes", [saved.data, more.data]
    yield "subscriber_offsets", [saved.offsets, more.offsets[1:] + saved.offsets[-1]]
    marks = np.array([text is not None for text in view.subscribers.more], np.uint8)
    yield "subscriber_known", [known, marks]


def load(path: Path, lookups: Lookups, version: int) -> View:
    """The view back, its arrays mapped and checked."""
    arrays = container.read(path)
    try:
        return _view(path, arrays, lookups, version)
    except SnapshotError:
        raise
    except Exception as error:
        hint = "delete it: it is made again from the table beside it"
        raise SnapshotError(path, f"holds what no table has: {error}", hint) from error


def _view(path: Path, arrays: Arrays, lookups: Lookups, version: int) -> View:
    said = json.loads(arrays["table_meta"].tobytes())
    demand(said["version"] == version, f"it is of version {said['version']}")
    demand(said["ids"] in (None, "string", "int"), "there is no such type of ids")
    texts = Texts(arrays["subscriber_bytes"], arrays["subscriber_offsets"])
    checks.texts(texts, "subscribers")
    known = arrays["subscriber_known"]
    matcher = matcher_of(Matcher, path, arrays, lookups)
    demand(len(texts) == len(known) == len(matcher._contents.ids), "subscribers do not fit")
    problems = [Problem(*row) for row in said["problems"]]
    return View(version, matcher, said["ids"], Subscribers(texts, known), problems)
