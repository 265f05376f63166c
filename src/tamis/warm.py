"""Compile kernels ahead: `tamis warm`, `python -m tamis.warm`. Set-up does it, so that users do not
wait; else the first use compiles those of the engine in the background (jit/first_use.py), and
the others when they are called: implications, packets, states."""

from __future__ import annotations

import os

os.environ["TAMIS_KERNELS"] = "now"  # before kernels are imported

import fcntl
import gc
import sys
import threading

import pyarrow as pa

from tamis.engine import Details, Matcher
from tamis.flow.states.equivalence import warm as warm_states
from tamis.jit.cache import CACHE
from tamis.jit.first_use import show_progress
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.subjects.subject_index import SubjectIndex
from tamis.pubsub.subjects.typecodes import TypeCode
from tamis.pubsub.wire import Codec
from tamis.pubsub.wire.packet_columns import decode_columns, encode_columns
from tamis.schema import Schema

_SELECTORS = (
    "symbol = 'S1' AND price < 10.5 AND volume > 7",
    "symbol IN ('S1', 'S2') OR NOT price BETWEEN 1 AND 2 OR (volume = 3 AND price IS NULL)",
    "venue = 'V1' AND price < 10.5 AND volume IN (1, 2, 3)",
    "symbol CONTAINS 'a' AND symbol STARTS WITH 'b' OR symbol ENDS WITH 'c' AND symbol < 'd'",
)
_SCHEMA = Schema.of(symbol=str, venue=str, price=float, volume=int)
_BOXES = 400  # enough for a tree


def main() -> None:
    """All kernels; a line on a terminal shows the progress."""
    done = threading.Event()
    if sys.stderr.isatty():
        threading.Thread(target=_show, args=(done,), daemon=True).start()
    try:
        engine()
        _others()
    finally:
        done.set()


def engine() -> None:
    """Those of the engine, unless they are compiled."""
    with CACHE.to_compile() as turn:
        if turn is not None:
            _compile_engine()


def go_on(turn: int) -> None:
    """The same in place of the process that it is the turn of (`Cache.to_compile`)."""
    try:
        _compile_engine()
    finally:
        fcntl.flock(turn, fcntl.LOCK_UN)


def _compile_engine() -> None:
    _engine()
    CACHE.all_compiled()


def _show(done: threading.Event) -> None:
    while not done.wait(0.2):
        show_progress()
    print(file=sys.stderr)


def _engine() -> None:
    table = _table()
    for matcher in (Matcher(_SCHEMA, semantics="strict"), Matcher()):
        _use(matcher, table)
    _many_columns()
    _texts(table)
    _terms_and_boxes()
    _lists(table["symbol"].to_pylist())


def _others() -> None:
    """The kernels of implications, packets and states."""
    _use(Matcher(_SCHEMA, engine="implication"), _table())
    _packets(_table().select(["symbol", "price", "volume"]))
    warm_states()


def _table() -> pa.Table:
    symbols = [f"S{i % 40}" for i in range(100)]
    venues = [f"V{i % 3}" if i % 7 else None for i in range(100)]
    numbers = {"price": [i / 10 for i in range(100)], "volume": list(range(100))}
    return pa.table({"symbol": symbols, "venue": venues, **numbers})


def _use(matcher: Matcher, table: pa.Table) -> None:
    matcher.add_many(enumerate(_SELECTORS))
    matcher.add_many((100 + i, f"symbol = 'S{i}' AND price < {i}.5") for i in range(40))
    matcher.add_many((200 + i, _wide_or(i)) for i in range(3))
    matcher.match({"symbol": "abc", "price": 1.0, "volume": 8})
    matcher.match_batch(table)
    matcher.count_batch(table)
    matcher.bitmap_batch(table)
    matcher.remove(0)
    matcher.settle()


def _many_columns() -> None:
    """The kernels of batches of many columns."""
    names = {f"{kind.__name__}{i}": kind for kind in (str, float) for i in range(40)}
    matcher = Matcher(Schema.of(names))
    matcher.add_many((i, f"str{i % 40} = 'S{i}' AND float{i % 40} < {i}") for i in range(800))
    matcher.settle()
    texts, numbers = [f"S{i}" for i in range(100)], [float(i) for i in range(100)]
    matcher.count_batch(pa.table({n: texts if k is str else numbers for n, k in names.items()}))


def _texts(table: pa.Table) -> None:
    """The kernels of texts, of conditions that nothing leads to, and of one that is never true."""
    matcher = Matcher()
    matcher.add("never", "price < 1 AND price > 2 AND symbol LIKE '%a%' AND symbol <> 'S1'")
    matcher.add("in any case", "lower(symbol) = 's1' OR symbol WITHIN 'S1, S2'")
    matcher.add_many(
        (str(i), f"NOT symbol = 'S{i}' AND NOT venue CONTAINS 'v{i}'") for i in range(300)
    )
    matcher.settle()
    matcher.match({"symbol": "S1", "venue": "V2"})
    matcher.match_batch(table)
    ids = pa.table({"id": list(map(str, matcher)), "priority": list(range(len(matcher)))})
    matcher.match_batch(table, details=Details(ids, order_by="priority", limit=2))


def _terms_and_boxes() -> None:
    """The kernels of computed terms, of trees of boxes, and of one message against many."""
    matcher = Matcher(Schema.of(x=float, y=float))
    matcher.add_many((i, f"x * {i}.5 + y > {i} OR x < y") for i in range(20))
    boxes = (f"x BETWEEN {i} AND {i + 2} AND y BETWEEN {i} AND {i + 2}" for i in range(_BOXES))
    matcher.add_many((100 + i, box) for i, box in enumerate(boxes))
    matcher.settle()
    matcher.match({"x": 1.0, "y": 1.5})
    matcher.match_batch(pa.table({"x": [1.0, 2.0], "y": [1.5, 2.5]}))


def _lists(tags: list[str]) -> None:
    """The kernels of lists."""
    matcher = Matcher(Schema.of(tags=list[str], prices=list[float]))
    matcher.add_many((i, f"ANY(tags) = 'S{i}' AND ALL(prices) < {i}.5") for i in range(20))
    lists = [tags[i : i + i % 4] for i in range(len(tags))]
    matcher.match_batch(pa.table({"tags": lists, "prices": [[float(len(own))] for own in lists]}))


def _packets(table: pa.Table) -> None:
    """The kernels of tamis.pubsub."""
    kinds = {"symbol": TypeCode.STRING, "price": TypeCode.DOUBLE, "volume": TypeCode.UINT}
    attributes = tuple(ChannelAttribute(name, kind) for name, kind in kinds.items())
    codec = Codec(Channel(1, attributes).with_subject("quotes.nyse"))
    header = {"publisher": 1, "session": 1, "sequence": 0}
    decode_columns(codec, encode_columns(codec, table, "quotes.nyse", **header).data)
    index: SubjectIndex[int] = SubjectIndex()
    index.add_many((i, SubjectFilter((f"a{i}", "*"))) for i in range(100))
    index.match(Subject(("a1", "b")))
    index.match_many([Subject(("a1", "b"))])


def _wide_or(seed: int) -> str:
    return " OR ".join(f"(price < {i}.{seed} AND volume > {i})" for i in range(60))


if __name__ == "__main__":
    gc.disable()  # a tenth less work
    if len(sys.argv) > 1:
        go_on(int(sys.argv[1]))
    else:
        main()
    os._exit(0)  # taking apart what was compiled takes longer than most kernels
