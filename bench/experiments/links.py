"""Links between routers: what crosses them, what that costs, and how a network of many grows.

python -m bench.experiments.links 1000000     # that many subscriptions at one edge: minutes
"""

from __future__ import annotations

import sys

import numpy as np

from bench import progress
from bench.measure import Latency, in_own_process, latency, resident_bytes, timed
from bench.report import Chart, Goal, Result, Table, verdicts
from bench.tree import Tree
from bench.workloads import branches, stock
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.interests import Interests
from tamis.pubsub.links.sieve import Sieve
from tamis.pubsub.links.wants import Want

ABOUT = (
    "Routers without sockets and disks (`tamis.pubsub.links`); frames cross as bytes. One link: "
    "CPU of both ends, all messages crossing; one want more or less at a parent with many; the "
    "subscriptions of one edge merged. Branches: stock alerts of 16 edges in 4 regions, each edge "
    "with its own symbols out of 5,000, beside a network that floods and one that passes every "
    "subscription on. Many routers: a home, 20 regions, 49 edges each, with a made-up clock."
)
SCALES = {
    "full": {"crossing": 200_000, "wants": 17_000, "edge": (10_000, 100_000), "changes": 500,
             "subscriptions": 200, "messages": 10_000, "widths": (20, 49), "each": 50,
             "churn": 1_000},
    "quick": {"crossing": 20_000, "wants": 2_000, "edge": (10_000,), "changes": 100,
              "subscriptions": 100, "messages": 5_000, "widths": (5, 10), "each": 50,
              "churn": 100},
    "tiny": {"crossing": 400, "wants": 50, "edge": (100,), "changes": 5, "subscriptions": 5,
             "messages": 200, "widths": (2, 2), "each": 5, "churn": 5},
}  # fmt: skip
EDGE = ("subscriptions", "wants", "merge s", "one more ms", "p99 ms", "one less ms", "MB",
        "hello MB")  # fmt: skip
LOCAL = (5, 50, 500, 5_000)  # symbols that a branch is interested in
KINDS = ("merged", "unmerged", "flooding")
LANGUAGE = Language(stock.SCHEMA)
_MEGABYTE = 1 << 20


def run(scale: str) -> Result:
    sizes = SCALES[scale]
    progress.say("one link")
    rates, per_message = _crossing(sizes["crossing"])
    changed = _changes(sizes["wants"], sizes["changes"])
    edges = []
    for count in sizes["edge"]:
        progress.say(f"{count:,} subscriptions at an edge")
        edges.append(in_own_process(_edge, count))
    compared, chart = _compared(sizes["subscriptions"], sizes["messages"])
    progress.say("many routers")
    many, memory = _many(sizes)
    goals = [
        Goal("all crossing, 100 in a block", 40_000, 150_000, rates[1][2], "/s"),
        Goal("bytes a message, 100 in a block", 150, 90, per_message, at_most=True),
        Goal("one want more at a parent", 1, 0.1, changed[0][2], " ms", at_most=True),
        Goal("one want less at a parent", 1, 0.1, changed[1][2], " ms", at_most=True),
        Goal("crossing and not wanted", 0, 0, memory["unwanted"], at_most=True),
    ]
    tables = [
        verdicts(goals),
        Table("One link, all crossing", ("messages", "in a block", "messages/s", "bytes each"),
              rates, "CPU of both ends: judged, encoded, decoded, taken; no disk"),
        Table("One want at a parent", ("what", "wants there", "median ms", "p99 ms"), changed),
        Table("One edge", EDGE, edges),
        Table("Branches", ("symbols of a branch", "network", "wants told", "filter MB",
                           "messages on links", "MB on links", "CPU s home", "regions", "edges"),
              compared, "The same subscribers get the same messages in all three."),
        Table("Many routers", ("what", "home to regions", "regions to edges"), many,
              memory["note"]),
    ]  # fmt: skip
    return Result("links", ABOUT, tables, [chart])


# --- one link ---------------------------------------------------------------------------


def _crossing(count: int) -> tuple[list[list], float]:
    """Everything is wanted below; what a message takes on the wire."""
    rows, per_message = [], 0.0
    for size in (1, 100, 1_000):
        number = max(count // (20 if size == 1 else 1), 2 * size)
        tree = Tree(LANGUAGE, (1,))
        tree.edges[0].router.put("all", ">", "")
        tree.connect()
        blocks = branches.blocks(number, size)
        tree.publish(blocks[:1])
        tree.reset()
        tree.publish(blocks[1:] or blocks[:0])
        messages = max(tree.traffic.messages[1], 1)
        cpu = max(tree.cpu(0) + tree.cpu(1), 1e-9)
        each = tree.traffic.total("Data") / messages
        rows.append([number, size, messages / cpu, each])
        if size == 100:
            per_message = each
    return rows, per_message


def _changes(wants: int, changes: int) -> list[list]:
    """One more and one less, at a parent that has many."""
    texts = [Want(">", text) for text in stock.alerts(wants + changes).texts()]
    tree = Tree(LANGUAGE, (1,))
    tree.connect()
    home = tree.home.router
    link = tree.edges[0].up
    for at in range(0, wants, 1_000):
        home.receive(link, wire.Add(at + 1, tuple(texts[at : min(at + 1_000, wants)])))
    home.appended(branches.blocks(100, 100)[0])
    home.effects()
    last = wants + 1
    more = latency(
        lambda i=i: home.receive(link, wire.Add(last + i, (texts[wants + i],)))  # type: ignore[misc]
        for i in range(changes)
    )
    less = latency(
        lambda i=i: home.receive(link, wire.Remove((texts[wants + i],)))  # type: ignore[misc]
        for i in range(changes)
    )
    return [["more", wants, *_ms(more)], ["less", wants, *_ms(less)]]


def _ms(found: Latency) -> list[float]:
    return [1000 * found.median, 1000 * found.p99]


def _edge(count: int) -> list:
    """The subscriptions of one edge, merged: in a process of its own."""
    texts = list(stock.alerts(count + 200).texts())
    interests = Interests(LANGUAGE)
    before = resident_bytes()
    seconds = timed(lambda: interests.put_many((n, ">", texts[n], "") for n in range(count)))
    memory = (resident_bytes() - before) / _MEGABYTE
    wants = len(interests.wants)
    more = latency(
        lambda n=n: interests.put(n, ">", texts[n])  # type: ignore[misc]
        for n in range(count, count + 200)
    )
    less = latency(lambda n=n: interests.remove(n) for n in range(count, count + 200))  # type: ignore[misc]
    frame = wire.encode(1, wire.Wants(tuple(interests.wants), more=False))
    megabytes = len(frame) / 1e6
    return [count, wants, seconds, *_ms(more), _ms(less)[0], memory, megabytes]


# --- branches ----------------------------------------------------------------------------


def _compared(subscriptions: int, messages: int) -> tuple[list[list], Chart]:
    rows, lines = [], {kind: [] for kind in KINDS}
    blocks = branches.blocks(messages, 100)
    for local in LOCAL:
        wanted = set()
        for kind in KINDS:
            progress.say(f"{kind}, {local:,} symbols a branch")
            row, hits = _branches(kind, local, subscriptions, blocks)
            rows.append(row)
            wanted.add(hits)
            lines[kind].append((float(local), max(row[3] + row[5], 1e-6)))
        assert len(wanted) == 1, wanted
    title = "What crosses the links of 4 regions and 16 edges"
    axes = "symbols that a branch is interested in", "MB, filters and messages"
    chart = Chart("links_locality", title, *axes, lines)
    return rows, chart


def _branches(kind: str, local: int, subscriptions: int, blocks: list) -> tuple[list, int]:
    """A row, and how many messages subscribers get."""
    tree = Tree(LANGUAGE, (4, 4), kind)
    for number, edge in enumerate(tree.edges):
        texts = branches.alerts(number, subscriptions, local).texts()
        tree.call(edge, edge.router.put_many, [(n, ">", t, "") for n, t in enumerate(texts)])
    tree.connect()
    filters = tree.traffic.total("Hello", "Wants", "Add", "Remove") / 1e6
    told = sum(len(node.router.child.wants) for node in tree.nodes[1:])
    tree.publish(blocks[:1])
    tree.reset()
    tree.publish(blocks)
    crossing = sum(tree.traffic.messages.values())
    megabytes = tree.traffic.total("Data", "Ack") / 1e6
    cpu = [tree.cpu(level) for level in range(3)]
    hits = sum(
        len(_judge(branches.alerts(number, subscriptions, local)).hits(edge.kept))
        for number, edge in enumerate(tree.edges)
    )
    return [local, kind, told, filters, crossing, megabytes, *cpu], hits


def _judge(alerts: stock.Alerts) -> Judge:
    """What the subscribers of a branch match."""
    judge = Judge(LANGUAGE)
    judge.add_many((n, ">", text, "") for n, text in enumerate(alerts.texts()))
    return judge


# --- many routers --------------------------------------------------------------------------


def _many(sizes: dict) -> tuple[list[list], dict]:
    """Three levels: what a network of many tells, what crosses, and how soon a want is in force."""
    tree = Tree(LANGUAGE, sizes["widths"])
    for number, edge in enumerate(tree.edges):
        texts = branches.alerts(number, sizes["each"], 50).texts()
        tree.call(edge, edge.router.put_many, [(n, ">", t, "") for n, t in enumerate(texts)])
    tree.connect()
    rows = [["wants told", *(_told(tree, level) for level in (1, 2))]]
    rows.append(["filter MB, all new", *_filters(tree, 1e6)])
    blocks = branches.blocks(sizes["messages"], 100)
    tree.publish(blocks[:1])
    tree.reset()
    tree.publish(blocks)
    rows.append(["messages crossing", *(tree.traffic.messages[level] for level in (1, 2))])
    rows.append(["MB of them", *(tree.traffic.total("Data", level=n) / 1e6 for n in (1, 2))])
    rows.append(["CPU s, all parents", *(tree.cpu(level) for level in (0, 1))])
    unwanted = _unwanted(tree, sizes["each"])
    memory = _memory_of_root(tree)
    rows += _churn(tree, sizes["churn"])
    note = (
        f"{len(tree.nodes):,} routers, {len(tree.edges) * sizes['each']:,} subscriptions, "
        f"{sizes['messages']:,} messages. What the wants take in the home's memory: "
        f"{memory / _MEGABYTE:,.0f} MB."
    )
    return rows, {"note": note, "unwanted": unwanted}


def _told(tree: Tree, level: int) -> int:
    return sum(len(node.router.child.wants) for node in tree.levels[level])


def _filters(tree: Tree, unit: float) -> list[float]:
    kinds = "Hello", "Wants", "Add", "Remove"
    return [tree.traffic.total(*kinds, level=level) / unit for level in (1, 2)]


def _unwanted(tree: Tree, each: int) -> int:
    """Messages that came to some edges, and that none of their subscriptions matches."""
    found = 0
    for number, edge in list(enumerate(tree.edges))[:20]:
        judge = _judge(branches.alerts(number, each, 50))
        found += len(edge.kept) - len(judge.hits(edge.kept))
    return found


def _memory_of_root(tree: Tree) -> int:
    """What a second sieve with the same wants takes."""
    before = resident_bytes()
    sieve = Sieve(LANGUAGE)
    for number, region in enumerate(tree.levels[1], 1):
        sieve.open(number)
        sieve.put(number, list(region.router.child.wants))
    sieve.sift(branches.blocks(100, 100)[0].records)
    return resident_bytes() - before


def _churn(tree: Tree, changes: int) -> list[list]:
    """Subscriptions that come and go at random edges, one after the other."""
    rng = np.random.default_rng(5)
    texts = list(branches.alerts(99, changes, 50).texts())
    tree.reset()
    waits = []
    for n, text in enumerate(texts):
        edge = tree.edges[int(rng.integers(len(tree.edges)))]
        start = tree.now
        tree.call(edge, edge.router.put, ("new", n), ">", text)
        tree.settle()
        waits.append(tree.in_force["new", n] - start)
        tree.call(edge, edge.router.remove, ("new", n))
        tree.settle()
    each = 2 * changes
    told = [
        (tree.traffic.frames["Add", level] + tree.traffic.frames["Remove", level]) / each
        for level in (1, 2)
    ]
    return [
        ["frames a change", *told],
        ["filter bytes a change", *_filters(tree, each)],
        ["CPU ms a change, parents", *(1000 * tree.cpu(level) / each for level in (0, 1))],
        ["in force everywhere, in wires (median)", None, float(np.median(waits))],
        ["in force everywhere, in wires (most)", None, float(np.max(waits))],
    ]


if __name__ == "__main__":
    print(dict(zip(EDGE, _edge(int(sys.argv[1])), strict=True)))
