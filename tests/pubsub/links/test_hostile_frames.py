"""Whatever frames come, in whatever order: a router answers, refuses or leaves, and goes on."""

from __future__ import annotations

import random

from dose import dose
from pubsub.links.test_router import LANGUAGE, record
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.router import Router
from tamis.pubsub.links.wants import Want, WantSet

WANTS = [Want(">", ""), Want("q.*", "price > 5"), Want("a..b", "price >"), Want(">", "((")]
NAMES = ("home", "middle", "edge", "other")


def any_up(rng):
    wants = tuple(rng.sample(WANTS, rng.randint(0, 3)))
    n, m = rng.randint(0, 6), rng.randint(1, 9)
    upto = rng.choice((None, n))
    digest = rng.choice((b"", WantSet(wants).digest))
    return rng.choice([
        wire.Hello(wire.VERSION, rng.choice(NAMES), rng.choice("abc"), upto, digest, n, wants),
        wire.Hello(wire.VERSION, rng.choice(NAMES), "a", upto, digest, 0, None),
        wire.Wants(wants, more=rng.random() < 0.5), wire.Add(n, wants), wire.Remove(wants),
        wire.Ack(n), wire.Fetch(n, m, m + n, rng.choice((None, wants))),
        wire.Publish(n, "p", (Draft("q", b"{}"),)),
    ])  # fmt: skip


def any_down(rng):
    n, m = rng.randint(0, 6), rng.randint(1, 9)
    records = tuple(record(s, price=float(s)) for s in range(m, m + n) if rng.random() < 0.5)
    epochs = (Epoch(rng.choice("ab"), 1), Epoch("c", m + 1))
    return rng.choice([
        wire.Above(tuple(rng.sample(NAMES, rng.randint(1, 3))), epochs), wire.Unknown(),
        wire.Welcome(m), wire.Data(m, m + n, records), wire.Added(n, m),
        wire.Fetched(n, m, m + n, records, rng.random() < 0.2), wire.Published(n, (m,)),
        wire.Refused("no", rng.choice((None, n))), wire.Drain("away"),
    ])  # fmt: skip


def test_no_frame_stops_a_router():
    rng = random.Random("hostile frames")
    kinds = set()
    for _ in range(dose(150, 5_000)):
        home = rng.random() < 0.4
        epochs = (Epoch("a", 1),) if home or rng.random() < 0.5 else ()
        upto = 5 if home else rng.choice((None, 3))
        router = Router(
            "home" if home else "middle", 1, LANGUAGE, home=home, upto=upto, epochs=epochs
        )
        links = iter(range(1, 1_000))
        below = [next(links) for _ in range(3)]
        for link in below:
            router.accept(link, rng.choice(("x", "y")), rng.choice(("", "price > 2")))
        above = None
        for step in range(40):
            if not home and above is None:
                above = next(links)
                router.connect(above)
            if rng.random() < 0.5 or home:
                router.receive(rng.choice(below), any_up(rng))
            else:
                router.receive(above, any_down(rng))
            if rng.random() < 0.1:
                router.put(step % 3, *rng.choice(WANTS[:2]))
            for effect in router.effects():
                kinds.add(type(effect))
                match effect:
                    case fx.Close(link) if link == above:
                        above = None
                    case fx.Store(block):
                        router.stored(block.last)
                    case fx.Begin(first):
                        router.stored(first - 1)
                    case fx.Read(ticket, first, last):
                        router.read_done(ticket, last, [record(last)])
                    case fx.Admit(ticket):
                        router.published(ticket, (1,))
            router.tick()
    assert kinds >= {fx.Reset, fx.Close, fx.Store, fx.Keep, fx.Read, fx.Admit}


def test_children_forgotten_leave_nothing_behind():
    home = Router("home", 1, LANGUAGE, home=True, upto=0, epochs=(Epoch("a", 1),))
    middle = Router("middle", 1, LANGUAGE, upto=0, epochs=(Epoch("a", 1),))
    for router in (home, middle):
        parent = router.parent
        empty = len(parent.sieve)
        for link in range(1, 20):
            router.accept(link)
            wants = tuple(Want(f"s{link}", f"price > {n}") for n in range(5))
            hello = wire.Hello(wire.VERSION, f"r{link}", "", None, b"", 5, wants)
            router.receive(link, hello)
            router.receive(link, wire.Add(1, (Want("more", ""),)))
            router.receive(link, wire.Fetch(1, 1, 9, None))
            router.disconnected(link)
            router.forget(f"r{link}")
            router.tidy()
        assert len(parent.sieve) == empty == 0
        assert not parent.branches
        assert not parent.requests
        assert not parent._guests
        assert not parent._awaiting
        assert not router._counts
        assert not router._fetches
        assert not router.child.wants
