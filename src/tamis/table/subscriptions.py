"""A table of subscriptions on a file system: versioned, and safe from crashes.

Any number of processes may change it and follow it at once. A change is one file under
the number of its version, and the file system gives each number only once. So of two
writers one is first; the other sees what has changed, and tries again after it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from tamis.engine.ground.ids import Id, blamed
from tamis.engine.matcher import Matcher
from tamis.engine.reading.intake import Intake
from tamis.errors import InputError, SelectorError, SnapshotError, SubscriptionError, TamisError
from tamis.logic import Lookups
from tamis.messages.tabular import SupportsArrow, subscription_rows
from tamis.notebook import SHOWN, html_table
from tamis.table import settings as files
from tamis.table.atomic_files import HINT, publish
from tamis.table.following import Follower, View, problem_rows, save
from tamis.table.pins import Pins
from tamis.table.settings import Said, Settings
from tamis.table.steps import Step, settled
from tamis.table.table_changes import Changes, IdKind, Net, encode
from tamis.table.versions import Versions

if TYPE_CHECKING:
    import pyarrow as pa

OnError = Literal["raise", "report"]
KEPT = 1_000  # versions that are kept unless another number is said
_DUE = 1_000  # changes after which the table is compiled anew, or a twentieth of its size
_GRACE = 60.0  # seconds for which a version stays after it was current, whatever is said
_IDLE = 30 * 86_400.0  # seconds after which a query that pinned nothing counts as given up
_READ = 100_000  # selectors after which what was learned from them is forgotten
_TRIES = 5
_ELSEWHERE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:")


class Change:
    """Several changes that become one version, or none where the block raises."""

    def __init__(self, table: Subscriptions) -> None:
        self._table, self._steps = table, list[Step]()
        self.version: int | None = None  # once it is published

    def add(self, id: Id, selector: str, subscriber: str | None = None) -> None:
        """Subscribe an id that is not in use."""
        self._table._check(selector)
        self._steps.append(Step("add", id, selector, subscriber))

    def replace(self, id: Id, selector: str, subscriber: str | None = None) -> None:
        """Give the id another selector and subscriber (or add it); it moves to the end."""
        self._table._check(selector)
        self._steps.append(Step("replace", id, selector, subscriber))

    def remove(self, id: Id) -> None:
        """End a subscription; or forget the problems with this id."""
        self._steps.append(Step("remove", id))

    def add_many(
        self,
        subscriptions: Iterable[Any] | SupportsArrow,
        on_error: OnError = "raise",
    ) -> None:
        """Add tuples (id, selector[, subscriber]), mappings, or a table with such columns.

        A bad one raises, and none is added; with "report" it is put aside (see `problems`).
        """
        if on_error not in ("raise", "report"):
            raise InputError(f"on_error is 'raise' or 'report', not {on_error!r}")
        report = on_error == "report"
        steps = [self._step(*given, report=report) for given in subscription_rows(subscriptions)]
        self._steps += steps

    def _step(self, id: Any, selector: Any, subscriber: Any, *, report: bool) -> Step:
        try:
            self._table._check(selector)
        except (SelectorError, SubscriptionError) as error:
            if not report:
                raise blamed(id, error) from None
            return Step("bad", id, selector, reason=str(error))
        return Step("add", id, selector, subscriber, report)

    def clear_problems(self) -> None:
        """Forget all problems."""
        self._steps.append(Step("clear"))

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None and self._steps:
            self.version = self._table._publish(self._steps)


class Subscriptions:
    """The table. `open` it; threads may share one."""

    def __init__(self, path: Path, settings: Settings, lookups: Lookups) -> None:
        self.path, self.settings, self.lookups = path, settings, lookups
        self.versions, self.pins = Versions(path / "versions"), Pins(path / "pins")
        self._lock = threading.RLock()
        self._intake: Intake | None = None
        self._read = 0
        self._version = -1  # what `_now` is about
        self._now = Net()
        self._since = 0  # changes since the table was last compiled

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        lookups: Lookups | None = None,
        **said: Unpack[Said],
    ) -> Subscriptions:
        """Make a table in this folder, unless there is one; then open it.

        What is said (schema, semantics, dialect, limits, ids) holds for ever. It need not be
        said again, and cannot be said otherwise. `lookups` are to be given each time.
        """
        folder = _folder(path)
        if not (folder / "settings").exists():
            _make(folder, Settings(**said, lookups=tuple(sorted(lookups or {}))))
        return cls.open(folder, lookups=lookups, **said)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        lookups: Lookups | None = None,
        **said: Unpack[Said],
    ) -> Subscriptions:
        """The table in this folder; InputError where there is none (see `create`).

        Whatever is said must be what was said when it was made.
        """
        folder = _folder(path)
        file, given = folder / "settings", lookups or {}
        try:
            settings = files.decode(file, file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(folder) from None
        except OSError as error:
            raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
        settings.check(folder, said, given)
        return cls(folder, settings, given)

    # --- writing -------------------------------------------------------------

    def change(self) -> Change:
        """`with table.change() as change: ...`: all that is done in it is one version."""
        return Change(self)

    def add(self, id: Id, selector: str, subscriber: str | None = None) -> int:
        """Subscribe an id that is not in use. Returns the number of the new version."""
        change = Change(self)
        change.add(id, selector, subscriber)
        return self._publish(change._steps)

    def replace(self, id: Id, selector: str, subscriber: str | None = None) -> int:
        """Give the id another selector and subscriber (or add it); it moves to the end."""
        change = Change(self)
        change.replace(id, selector, subscriber)
        return self._publish(change._steps)

    def remove(self, id: Id) -> int:
        """End a subscription; or forget the problems with this id."""
        return self._publish([Step("remove", id)])

    def add_many(
        self,
        subscriptions: Iterable[Any] | SupportsArrow,
        on_error: OnError = "raise",
    ) -> int:
        """Add all as one version: tuples (id, selector[, subscriber]), mappings, or a table.

        A bad one raises, and none is added; with "report" it is put aside (see `problems`).
        """
        change = Change(self)
        change.add_many(subscriptions, on_error)
        return self._publish(change._steps)

    def clear_problems(self) -> int:
        """Forget all problems."""
        return self._publish([Step("clear")])

    def _check(self, selector: object) -> None:
        """Raise where the selector is none."""
        if not isinstance(selector, str):
            raise SubscriptionError(
                "the selector is NULL" if selector is None else f"no selector: {selector!r}"
            )
        with self._lock:
            if self._intake is None or self._read >= _READ:
                made = self.settings
                limits, lookups = made.limits, self.lookups
                self._intake = Intake(made.schema, made.semantics, made.dialect, limits, lookups)
                self._read = 0
            self._read += 1
            self._intake.read(selector)

    def _publish(self, steps: list[Step]) -> int:
        with self._lock:
            if not steps:
                return self.version
            while True:
                now = self._refreshed()
                changes = settled(steps, now, self._version + 1)
                if self.versions.publish(changes):
                    break
            self._take(changes)
            if self._since >= max(_DUE, len(now.put) // 20):
                self.compile()
                self.vacuum()
            return changes.version

    # --- reading -------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the current version. An empty table has version 0."""
        return self.versions.newest(max(self._version, 0))

    @property
    def ids(self) -> IdKind | None:
        """The type of ids, "string" or "int"; None as long as there was none and none was said."""
        with self._lock:
            return self._refreshed().ids

    def __repr__(self) -> str:
        try:
            return (
                f"<Subscriptions {str(self.path)!r}: version {self.version}, {len(self):,} of them>"
            )
        except (TamisError, OSError) as error:
            return f"<Subscriptions {str(self.path)!r}: {error}>"

    def _repr_html_(self) -> str:
        with self._lock:
            rows = [(id, *found) for id, found in islice(self._refreshed().put.items(), SHOWN)]
        return html_table(repr(self)[1:-1], ("id", "selector", "subscriber"), rows)

    def __len__(self) -> int:
        with self._lock:
            return len(self._refreshed().put)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return id in self._refreshed().put

    def __iter__(self) -> Iterator[Id]:
        """The ids of the current version, in the order of adding."""
        with self._lock:
            return iter(list(self._refreshed().put))

    def __getitem__(self, id: Id) -> tuple[str, str | None]:
        """The selector and the subscriber of an id."""
        with self._lock:
            found = self._refreshed().put.get(id)
        if found is None:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return found

    def problems(self) -> pa.Table:
        """What was put aside: `id` (as a string), `selector` and `reason` of each."""
        with self._lock:
            return problem_rows(self._refreshed().bad)

    def matcher(self, version: int | None = None) -> Matcher:
        """A matcher of your own with the subscriptions of the version, or the current ones."""
        return self.view(version).matcher

    def view(self, version: int | None = None) -> View:
        """The table at the version, or as it is: a matcher, and the subscribers of its ids."""
        return self.follower().at(version)

    def follower(self) -> Follower:
        """A reader that goes from version to version, at the cost of what has changed."""
        return Follower(self.versions, self.settings, self.lookups)

    def _refreshed(self) -> Net:
        for _ in range(_TRIES):
            try:
                newest = self.versions.newest(max(self._version, 0))
                if self._version < 0:
                    self._reload()
                for changes in self.versions.after(self._version, newest):
                    self._take(changes)
                return self._now
            except FileNotFoundError:  # cleared away meanwhile: start from a newer table
                self._version = -1
        raise self.versions.missing(self._version)

    def _reload(self) -> None:
        present = self.versions.present()
        base = present.base(present.newest)
        self._now, self._version, self._since = Net(ids=self.settings.ids), 0, 0
        if base:
            self._take(self.versions.read(base, "table"))
            self._since = 0

    def _take(self, changes: Changes) -> None:
        self._now.take(changes)
        self._now.gone.clear()  # nothing was before
        self._version = changes.version
        self._since += len(changes.rows)

    # --- keeping -------------------------------------------------------------

    def compile(self) -> None:
        """Save the current version as a whole, so that readers start from it.

        This happens by itself when enough has changed.
        """
        with self._lock:
            now, version = self._refreshed(), self._version
            whole = Changes(version, now.ids, list(now.rows()))
            if version == 0:
                return
            follower = self.follower()
            view = follower.at(version)
            if view.surplus > _DUE:
                view = follower.compiled(whole)
            # The table comes last: who finds it may rely on the snapshot.
            save(view, self.versions.path(version, "snapshot"))
            publish(self.versions.path(version, "table"), encode(whole))
            self._since = 0

    def vacuum(self, keep: int = KEPT, idle: float = _IDLE) -> int:
        """Delete versions that nobody needs; returns the oldest that is left.

        The last `keep` versions stay, and those that a query may ask for again after a crash;
        a query that pinned nothing for `idle` seconds is taken for given up.
        """
        if keep < 1:
            raise InputError(f"keep is at least 1, not {keep}")
        self.pins.forget(idle)
        needed = [self.version - keep + 1, self.versions.recent(_GRACE)]
        pinned = self.pins.oldest()
        return self.versions.vacuum(min(needed if pinned is None else [*needed, pinned]))


def _folder(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path)
    if _ELSEWHERE.match(text):
        raise InputError(f"{text}: no path: {HINT}")
    return Path(text.removeprefix("file://").removeprefix("file:")).absolute()


def _missing(folder: Path) -> TamisError:
    if (folder / "versions").exists():
        return SnapshotError(folder / "settings", "is missing", "copy it from where it is whole")
    hint = "Subscriptions.create makes one"
    return InputError(f"{folder}: there is no table of subscriptions: {hint}")


def _make(folder: Path, settings: Settings) -> None:
    settings.check_ids()
    settings.matcher({name: {} for name in settings.lookups})  # raises where they make no sense
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / "versions").exists():
            raise InputError(f"{folder}: is no table of subscriptions, and not empty")
        (folder / "versions").mkdir(exist_ok=True)
        (folder / "pins").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from error
    if any((folder / "versions").iterdir()):
        raise SnapshotError(folder / "settings", "is missing", "copy it from where it is whole")
    publish(folder / "settings", files.encode(settings))
