"""The rooms of the whole tree: folders import one way, and a name means one module."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in (ROOT / "tamis").rglob("*.py")
}
# Each with its reason. These lists may only become shorter.
BOTH_WAYS = {
    ("schema", "messages"): "Schema.of reads the columns of a table of any library",
    ("server.pages", "server.pages.views"): "a page and the table of pages",
}
UNSORTED = "engine"  # its rooms become paths: see its contract of layers
SAME_NAME = {
    "channels": "what is done, and its routes",
    "conditions": "a diagram's, and those of rules of other languages",
    "intake": "of selectors (engine), of messages (broker)",
    "limits": "of selectors, of sockets",
    "links": "what is done, its routes, and its commands",
    "numbers": "of atoms, of requests",
    "shapes": "of derived spaces (broker), of rules",
    "sql": "rules written in SQL, and a function of Spark's SQL",
    "subscriptions": "a table of them, and their routes",
    "table": "of routes, of pages",
}


def folder(module: str) -> str:
    """The room of a module: its folder, or itself where it is at the top."""
    path = MODULES[module]
    inside = path.parent.relative_to(ROOT / "tamis").parts
    return ".".join(inside) if inside else path.stem


def imports(module: str) -> set[str]:
    """The modules of the tree that a module imports, also inside functions."""
    found = set[str]()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tamis"):
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                found |= {n for n in (longer, node.module, f"{node.module}.__init__")
                          if n in MODULES and (n == longer or longer not in MODULES)}  # fmt: skip
    return found


def both_ways() -> list[tuple[str, str]]:
    arcs = {
        (folder(module), folder(other))
        for module in MODULES
        if not module.endswith("__init__")  # a room's face imports the rooms inside
        for other in imports(module)
    }
    return sorted((a, b) for a, b in arcs if a < b and (b, a) in arcs)


def test_no_two_folders_import_each_other():
    allowed = {tuple(sorted(pair)) for pair in BOTH_WAYS}
    found = [pair for pair in both_ways() if pair not in allowed]
    assert [
        (a, b) for a, b in found if not (a.startswith(UNSORTED) and b.startswith(UNSORTED))
    ] == []


def test_a_name_means_one_module():
    places = defaultdict(list)
    for module, path in MODULES.items():
        if path.stem[0] != "_":
            places[path.stem].append(module)
    several = {name for name, modules in places.items() if len(modules) > 1}
    assert sorted(several - set(SAME_NAME)) == []


def test_modules_are_not_named_after_nothing():
    names = Counter(path.stem for path in MODULES.values())
    assert not {"utils", "helpers", "common", "manager", "base"} & set(names)
