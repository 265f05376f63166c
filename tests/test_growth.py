"""Hostile text costs time in proportion to its length, in every regular expression of ours.

Nothing here depends on how fast the machine is: the processor time for four times the text is
compared with that for the text, and what is too quick to tell passes.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

import tamis
from tamis.errors import TamisError
from tamis.language import Limits, parse
from tamis.messages import parse_xml, read, read_schema
from tamis.messages.texts import from_text, guess
from tamis.schema import Schema

pytestmark = pytest.mark.slow

FLOOR = 0.03  # seconds that prove nothing
SMALL, LARGE = 1_000, 4_000


def grows_linearly(work: Callable[[int], object], small: int, large: int) -> bool:
    """Whether large / small times the text takes at most twice as many times as long."""
    for _ in range(3):  # something else may have used the caches
        slow = _seconds(work, large)
        if slow < FLOOR or slow < 2 * large / small * _seconds(work, small):
            return True
    return False


def _seconds(work: Callable[[int], object], size: int) -> float:
    """Of this thread. The garbage collector waits: it looks at what other tests left behind."""
    gc.disable()
    try:
        start = time.thread_time()
        work(size)
        return time.thread_time() - start
    finally:
        gc.enable()


# --- every pattern, whatever calls it ------------------------------------------

PUMPS = [
    *(" ", "\n", "\t", " \n", "\n ", "a", "1", "_", ".", "-", "=", ":", ",", "'", '"', "`", "<"),
    *("''", '""', "``", "<a", "a ", "1 ", " 1", "a.", ".a", "1.", "1_", "a=", "a=1", "a='", "a=''"),
    *("<?xml ", "<?xml ?", "<messages ", "</messages", "</message ", "a:b", "a:b=", "a:b= ", "%_"),
    *("a IN ('", "a IN ('',", "a IN ('a',", "a IN ('\",", "a BETWEEN 1 AND ", "NOT ", "lower( "),
    *("tamis.errors.a: ", "tamis.errors.", "\nat ", "\n at", " SQLSTATE:", "1e", "0x1", "0x1_"),
]  # fmt: skip
STARTS = [
    "",
    "a",
    "a=",
    "a='",
    'a="',
    "`",
    "1",
    "a:b",
    "a:b=",
    "a:b='",
    "<?xml ",
    "tamis.errors.A: ",
]
ENDS = ["", "!", "\0x"]  # fmt: skip


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for found in pkgutil.walk_packages(tamis.__path__, "tamis."):
        if found.name == "tamis.__main__":
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError:  # of an extra
            continue
        yield from _of(module)


def _of(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
            yield f"{module.__name__.split('.')[-1]}.{name}", value
        if name == "CUTTERS":
            yield from ((f"skeleton of {key}", cutter.skeleton) for key, cutter in value.items())


PATTERNS = {pattern: name for name, pattern in patterns()}


def test_there_are_patterns_to_try():
    assert len(PATTERNS) >= 25


# These are never searched for in a text that they do not fit: they are asked at one place, their
# first failure is an error, or they take apart what another one found.
AT_ONE_PLACE = {
    *("subscriptions._ELSEWHERE", "jms._TOKEN", "lexer._TOKEN", "predicates._CALL"),
    *("predicates._ITEM", "schemas._ENTRY", "rendering._HASHED"),
}


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.values())
def test_patterns_take_linear_time(pattern: re.Pattern[str]):
    call: Callable[[str], object] = pattern.split
    if PATTERNS[pattern] in AT_ONE_PLACE:
        call = pattern.match
    for start in STARTS:
        for pump in PUMPS:
            for end in ENDS:

                def work(size: int, parts: tuple[str, ...] = (start, pump, end)) -> None:
                    call(parts[0] + parts[1] * (size // len(parts[1])) + parts[2])

                assert grows_linearly(work, SMALL, LARGE), (start, pump, end)


# --- and the ways in that use them ---------------------------------------------


def xml(text: str) -> Callable[[int], object]:
    return lambda size: quietly(parse_xml, text.replace("…", " " * size).replace("¤", "x" * size))


def quietly(call: Callable[..., object], *arguments: object) -> object:
    try:
        return call(*arguments)
    except TamisError as error:
        return error


NUMBERS = Schema.of(x=float, n=int)
WAYS: dict[str, Callable[[int], object]] = {
    "blanks in XML": xml("<x>…5</x>"),
    "letters in XML": xml("<x>¤</x>"),
    "blanks between elements": xml("<x>1</x>…<y>2</y>…"),
    "blanks in a tag": xml("<x…>1</x…>"),
    "declarations": lambda n: quietly(parse_xml, "<?xml " * n),
    "digits": lambda n: quietly(from_text, NUMBERS, "x", "1" * n + "x"),
    "digits of a double": lambda n: quietly(from_text, NUMBERS, "x", "1" * n + ".5"),
    "digits of an integer": lambda n: quietly(from_text, NUMBERS, "n", "1" * n),
    "digits by looking": lambda n: quietly(guess, "x", "1" * n + ".e"),
    "blanks in a schema": lambda n: quietly(read_schema, "a:int" + " " * n + "x"),
    "a default of a schema": lambda n: quietly(read_schema, "a:int=" + " " * n + "'"),
    "quotes in a schema": lambda n: quietly(read_schema, "a:int='" + "''" * n),
    "private characters": lambda n: quietly(
        parse, "a LIKE '" + "".join(map(chr, range(0xE000, 0xE000 + n // 10))) + "!%' ESCAPE '!'"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_in_take_linear_time(way: str):
    assert grows_linearly(WAYS[way], 20_000, 80_000)


@pytest.mark.parametrize("line", ["<x>…5</x>\n", "<message>…</message>…<message…>", "…<x>1</x>"])
def test_files_of_xml_take_linear_time(line: str, tmp_path):
    def work(size: int) -> None:
        path = tmp_path / f"{size}.xml"
        path.write_text(line.replace("…", " " * size))
        for _ in read(path, on_bad=lambda row: None):
            pass

    assert grows_linearly(work, 20_000, 80_000)


@pytest.mark.parametrize("pump", PUMPS)
@pytest.mark.parametrize("dialect", ["tamis", "jms"])
def test_selectors_take_linear_time(pump: str, dialect: str):
    limits = Limits(length=1_000_000)
    for start in STARTS:

        def work(size: int, start: str = start) -> None:
            quietly(
                lambda: parse(start + pump * (size // len(pump)), dialect=dialect, limits=limits)
            )

        assert grows_linearly(work, SMALL, LARGE), start


# --- conditions of many atoms ---------------------------------------------------

ATOMS: dict[str, Callable[[int], str]] = {
    "texts": lambda i: f"s CONTAINS 'part {i}'",
    "memberships": lambda i: f"s = 'value {i}'",
    "attributes": lambda i: f"a{i} = {i}",
    "ranges": lambda i: f"n BETWEEN {10 * i} AND {10 * i + 5}",
}


@pytest.mark.parametrize("kind", ATOMS)
def test_adding_takes_linear_time(kind: str):
    """Choosing what leads to a condition once looked at all of its atoms for each of them."""

    def work(atoms: int) -> None:
        matcher = tamis.Matcher(limits=Limits(length=1_000_000))
        matcher.add("it", " OR ".join(map(ATOMS[kind], range(atoms))))
        matcher.match({"s": "part 1", "n": 1})

    work(10)  # kernels are loaded
    assert grows_linearly(work, 1_000, 4_000)


LISTS = {
    "plain": (Schema.of(t=str), "t IN ('v{0}', 'v{1}')"),
    "elements": (Schema.of(t=list[str]), "ANY(t) IN ('v{0}', 'v{1}')"),
}


@pytest.mark.parametrize("kind", LISTS)
def test_adding_lists_takes_linear_time(kind: str):
    """Each IN once looked for its constants among those of all the others."""
    schema, selector = LISTS[kind]

    def work(count: int) -> None:
        matcher = tamis.Matcher(schema)
        matcher.add_many((i, selector.format(i, i + 1)) for i in range(count))

    work(10)  # kernels are loaded
    assert grows_linearly(work, 3_000, 12_000)
