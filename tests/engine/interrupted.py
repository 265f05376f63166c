"""Ctrl-C at random moments: `python tests/engine/interrupted.py ROUNDS [SEED]`.

Each round forks a child that changes or uses a matcher without end, sends it SIGINT, and lets
it compare its matcher with what a plain dict says. Prints a line for each kind of work: how many
rounds, and what was wrong with how many; and on standard error how far it is, and which works did
not hear their first interrupt.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa

from tamis import Matcher, Schema

SCHEMA = Schema.of(x=int, name=str)
TABLE = pa.table({"x": list(range(500)), "name": ["q3"] * 500})
BASE = {f"b{i}": f"x > {i} AND name = 'n'" for i in range(100)}
MANY = 100  # subscriptions that one `add_many` adds
HEARD = 20.0  # seconds after which a child that still works is interrupted once more
LOST: list[str] = []  # works that had to be


def selector(i: int) -> str:
    return f"x > {i % 97} AND name = 'q{i % 9}'"


# A step of work changes the matcher; it yields the subscriptions before and after the step.
Step = tuple[dict[str, str], dict[str, str]]


def adding(matcher: Matcher, folder: Path) -> Iterator[Step]:
    now = dict(BASE)
    for i in count():
        new = {**now, f"a{i}": selector(i)}
        yield now, new
        matcher.add(f"a{i}", selector(i))
        now = new


def adding_many(matcher: Matcher, folder: Path) -> Iterator[Step]:
    now = dict(BASE)
    for j in count():
        more = {f"m{j}-{i}": selector(i + j) for i in range(MANY)}
        yield now, {**now, **more}
        matcher.add_many(more.items())
        now |= more


def replacing(matcher: Matcher, folder: Path) -> Iterator[Step]:
    now = dict(BASE)
    for i in count():
        id = f"b{i % 100}"
        new = {key: text for key, text in now.items() if key != id} | {id: selector(i)}
        yield now, new
        matcher.replace(id, selector(i))
        now = new


def removing(matcher: Matcher, folder: Path) -> Iterator[Step]:
    now = dict(BASE)
    for i in count():
        id = f"b{i % 100}"
        without = {key: text for key, text in now.items() if key != id}
        yield now, without
        matcher.remove(id)
        new = {**without, id: selector(i)}
        yield without, new
        matcher.add(id, selector(i))
        now = new


def matching(matcher: Matcher, folder: Path) -> Iterator[Step]:
    for _ in count():
        yield BASE, BASE
        matcher.match_batch(TABLE)


def saving(matcher: Matcher, folder: Path) -> Iterator[Step]:
    matcher.save(folder / "snapshot")
    for _ in count():
        yield BASE, BASE
        matcher.save(folder / "snapshot")


WORKS: tuple[Callable[[Matcher, Path], Iterator[Step]], ...] = (
    adding,
    adding_many,
    replacing,
    removing,
    matching,
    saving,
)


def expected(subscriptions: dict[str, str], message: dict[str, object]) -> list[str]:
    """What a matcher that never heard of an interrupt says."""
    fresh = Matcher(SCHEMA)
    fresh.add_many(subscriptions.items())
    return [str(id) for id in fresh.match(message)]


def faults(matcher: Matcher, folder: Path, before: dict[str, str], after: dict[str, str]) -> str:
    """What is wrong with a matcher whose last step was interrupted; nothing where all is well."""
    ids = list(matcher)
    if len(ids) != len(matcher):
        return "its length is wrong"
    if ids not in (list(before), list(after)):
        return "half of a step is done"
    held = before if ids == list(before) else after
    message = {"x": 10**6, "name": "q3"}
    if matcher.match(message) != expected(held, message):
        return "it matches others than it holds"
    if matcher.match_batch(TABLE).to_pylist()[499] != expected(held, {"x": 499, "name": "q3"}):
        return "a batch matches others than it holds"
    matcher.settle()
    for id in ids:
        matcher.remove(id)
    if len(matcher) or matcher.match(message):
        return "something is left that cannot be removed"
    matcher.add("new", "x > 5")
    if matcher.match(message) != ["new"]:
        return "it takes nothing new"
    return _saved_faults(folder)


def _saved_faults(folder: Path) -> str:
    snapshot = folder / "snapshot"
    if snapshot.exists() and list(Matcher.load(snapshot)) != list(BASE):
        return "the snapshot is not whole"
    left = [path.name for path in folder.iterdir() if path != snapshot]
    return f"files are left over: {left}" if left else ""


def child(work: Callable[[Matcher, Path], Iterator[Step]], folder: Path, pipe: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    matcher = Matcher(SCHEMA)
    matcher.add_many(BASE.items())
    step: Step = BASE, BASE
    what = "no interrupt came"
    try:
        os.write(pipe, b"!")
        for now, then in work(matcher, folder):
            step = now, then
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(pipe, b"!")
        what = faults(matcher, folder, *step)
    os.write(pipe, what.encode())


def one_round(work: Callable[[Matcher, Path], Iterator[Step]], rng: random.Random) -> str:
    """What was wrong after one interrupt."""
    with tempfile.TemporaryDirectory() as folder:
        source, sink = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(work, Path(folder), sink)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(sink)
        assert os.read(source, 1) == b"!"
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(pid, signal.SIGINT)
        while not select.select([source], [], [], HEARD)[0]:
            LOST.append(work.__name__)
            os.kill(pid, signal.SIGINT)
        os.read(source, 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with os.fdopen(source) as pipe:
            return pipe.read() or (f"ended with {code}" if code else "")


def main() -> None:
    rounds, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    for work in WORKS:  # kernels are loaded before anything is interrupted
        steps = work(warm := Matcher(SCHEMA), Path(tempfile.mkdtemp()))
        warm.add_many(BASE.items())
        for _ in range(40):
            next(steps)
    found = {work.__name__: Counter[str]() for work in WORKS}
    for i in range(rounds):
        work = WORKS[i % len(WORKS)]
        found[work.__name__][one_round(work, rng)] += 1
        if i % 60 == 59 and i + 1 < rounds:
            wrong = sum(times for of in found.values() for what, times in of.items() if what)
            print(f"{i + 1} of {rounds} interrupts, {wrong} wrong", file=sys.stderr, flush=True)
    for name, faults_of in found.items():
        wrong = {what: times for what, times in faults_of.items() if what}
        print(name, faults_of.total(), "interrupts,", wrong or "all well")
    if LOST:  # some library cleared the exception: nothing is half done, but nobody was told
        print("interrupted once more:", *LOST, file=sys.stderr)


if __name__ == "__main__":
    main()
