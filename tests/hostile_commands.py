"""`python tests/hostile_commands.py [COUNT [SEED [ONLY]]]`: hostile values in every option.

Every argument and option of every command gets each hostile value in turn; the commands and their
options are those that the app itself lists. COUNT picks some of these cases; without it, or with 0,
all are run. ONLY is part of a label, such as `flow show`.

Whatever comes, a command ends in time with an exit code of its own and without a traceback, and one
that refuses its input has changed no file. Commands that would start Spark, a server or a compiler
get one more argument that they refuse.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

from server.hostile_inputs import prepared
from server.hostile_values import TEXTS
from server.servers import QUOTES, served
from tamis.cli import app, main

DEADLINE = 60  # seconds for one command, on a machine that does much else
WATCHED = 1  # seconds after which a command that goes on until Ctrl-C gets it
MOST_SHOWN = 30  # failures
LONGEST = 100_000  # characters, about as many as a system lets one argument have
CODES = {0, 1, 2, 130}
OUTSIDE = {"../../etc/passwd"}  # it may be written to
VALUES = [
    *(text[:LONGEST] for text in TEXTS if text not in OUTSIDE), *(f"-{n}.5e400" for n in (1, 2)),
    "-inf", "\udc80", "a\udcff\ud800", "missing.jsonl", "missing/missing.jsonl", "folder",
    "subs.jsonl", "empty", "noise", "folder/", "-", "--", "@missing", "@folder", "@noise", "[]",
    '{"a":' * 2000, "a=b", "=", "a:int", "price:double,price:double", "http://", "https://[",
    "http://127.0.0.1:1", "127.0.0.1:99999", "127.0.0.1:-1", "[::1", ":", "ftp://x",
]  # fmt: skip
FLOW = """space quotes(symbol: string, price: double, sequence: int)
quotes -> Low : select price < 9
"""
SERVED = FLOW.replace(", sequence: int", "")  # channels have no such attribute
STATE = (
    FLOW
    + """state Top keyed by symbol from quotes ordered by sequence (max: double := 0)
  rule price > max => max := price
"""
)
REFUSED = "--no-such-option=1"
HEAVY = {"run", "flow run", "warm"}  # nothing of these is done
ENDLESS = {"top", "subscribe", "channel follow", "try"}
ON_SPARK = ("--from", "--to", "--output", "--errors", "--subscriptions", "--result")
USUAL = {
    "run": ["job.toml"], "test": ["cases.toml", "subs.jsonl"],
    "diff": ["subs.jsonl", "subs.jsonl", "msgs.jsonl"], "report": ["subs.jsonl"],
    "wire": ["{}", "--channel=channel.toml"], "flow lineage": ["f.flow", "Low"],
    "flow expand": ["state.flow", "Top", '--to={"max": 2}', '--key={"symbol": "a"}'],
    "flow state": ["folder"], "stop": ["folder"], "serve": ["data", "--smtp=127.0.0.1:1"],
    "match": ["subs.jsonl", "msgs.jsonl"], "explain": ["price > 1", '{"price": 2}'],
    "draw": ["price > 1"], "check": ["price > 1"], "principal": ["alice", "--directory=data"],
    "channel create": ["made", "price:double"], "channel follow": ["quotes", "folder"],
    "channel close": ["none"], "publish": ["quotes", "msgs.jsonl"], "subscribe": ["quotes"],
    "subscription list": [], "subscription create": ["quotes", "kept"], "flow served": ["f"],
    "access grant": ["alice", "publish"], "access revoke": ["alice", "publish"],
    "access end-token": ["alice", "1"], "flow end": ["f"], "top": ["--count=1"], "warm": [],
    "try": ["--no-browser"],
}  # fmt: skip


class Case(NamedTuple):
    command: str
    option: str  # empty: an argument
    arguments: list[str]


def commands() -> Iterator[tuple[str, list]]:
    """Every command, with its arguments and options as the app has them."""
    todo = [((name,), app[name]) for name in app if not name.startswith("-")]
    for path, found in todo:
        todo += [((*path, name), found[name]) for name in found if not name.startswith("-")]
        if found.default_command is not None:
            yield " ".join(path), [a for a in found.assemble_argument_collection() if a.names]


def cases(server: str, token: str) -> Iterator[Case]:
    for command, arguments in commands():
        names = [a.names[0] for a in arguments if a.names[0] != "*"]
        usual = USUAL.get(command)
        if usual is None:
            usual = ["f.flow"] if command.startswith("flow") and "FILE" in names else ["quotes"]
            usual = [*usual, "kept"][: sum(a.required for a in arguments)]
        reach = []
        if "--server" in names:
            reach = [f"--server={server}", f"--token={token}", "--timeout=20"]
        for place, name in enumerate([*names, "--unknown"]):
            for value in VALUES:
                yield _case(command, name, place, value, [*usual, *reach])


def _case(command: str, name: str, place: int, value: str, usual: list[str]) -> Case:
    more = []
    heavy = command in HEAVY or name == "--detach"
    if heavy or (command == "flow explain" and name.startswith(ON_SPARK)):
        more = [REFUSED]
    elif command == "serve" and name in ("--smtp", "--mail-from"):
        more = ["--http=nowhere"]
    if name.startswith("--"):
        usual = [one for one in usual if not one.startswith(f"{name}=")]
        return Case(command, name, [*command.split(), *usual, f"{name}={value}", *more])
    usual = [*usual[:place], value, *usual[place + 1 :]]
    return Case(command, "", [*command.split(), *usual, *more])


def prepare(folder: Path) -> None:
    """The files that usual arguments name."""
    texts = {
        "subs.jsonl": '{"id": 1, "selector": "price > 1"}\n', "msgs.jsonl": '{"price": 2.5}\n',
        "f.flow": FLOW, "state.flow": STATE, "empty": "", "folder/one": "1", "data/keep": "",
        "channel.toml": "[quotes]\nnumber = 1\n", "job.toml": "", "cases.toml": "",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "noise").write_bytes(bytes(range(256)) * 4)


def restore(http: httpx.Client) -> None:
    """What cases with a broker are about, as it was."""
    http.delete("/api/channels/made")
    for path, body in (("channels/quotes", QUOTES), ("channels/quotes/subscriptions/kept", {}),
                       ("principals/alice", {}), ("flows/f", {"text": SERVED})):  # fmt: skip
        found = http.put(f"/api/{path}", json=body)
        assert found.is_success, (path, found.text[:300])


def state(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


class HangError(BaseException):
    """A command that should have ended."""


def ended(case: Case) -> tuple[int, str]:
    """The exit code of a command and what it said; 130 if it goes on until Ctrl-C, as it should."""
    endless = case.command in ENDLESS

    def alarm(*_: object) -> None:
        raise KeyboardInterrupt if endless else HangError

    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, WATCHED if endless else DEADLINE)
    try:
        with (
            _output() as out,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _no_input(),
        ):
            code = main(case.arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:  # it came as the command began or ended
        code = 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return code, err.buffer.getvalue().decode()


def _output() -> contextlib.AbstractContextManager:
    """A file with a number, as a terminal has one."""
    return tempfile.TemporaryFile("w+", encoding="utf-8")


def _no_input() -> contextlib.AbstractContextManager:
    return mock.patch("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO())))


def wrong(case: Case, folder: Path, tally: Counter) -> str:
    """What is wrong with how it ended; empty: nothing."""
    before = state(folder)
    try:
        code, said = ended(case)
    except (Exception, HangError):
        return traceback.format_exc()[-900:]
    tally[f"exit {code}"] += 1
    if code not in CODES or "Traceback" in said:
        return f"exit {code}: {said[-600:]}"
    if code == 2 and not said:
        return "it is refused without a reason"
    if code == 2 and state(folder) != before:
        return f"refused, and yet files changed: {sorted(state(folder).keys() ^ before.keys())}"
    return ""


def walk(count: int = 0, seed: int = 0, only: str = "") -> Counter:
    """0: all cases; `only`: those whose label contains it."""
    tally, failures, here = Counter(), list[str](), Path.cwd()
    with contextlib.ExitStack() as stack:
        broker = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        token = prepared(broker)
        server = stack.enter_context(served(broker))
        headers = {"authorization": f"Bearer {token}"}
        http = stack.enter_context(server.http(headers=headers))
        chosen = [c for c in cases(server.url, token) if only in f"{c.command} {c.option}"]
        if count:
            chosen = random.Random(seed).sample(chosen, min(count, len(chosen)))
        done = -1
        for case in chosen:
            if done != tally["exit 0"]:
                restore(http)
                done = tally["exit 0"]
            with tempfile.TemporaryDirectory() as folder:
                inner = Path(folder, "a", "b", "c")
                prepare(inner)
                os.chdir(inner)
                try:
                    problem = wrong(case, inner, tally)
                finally:
                    os.chdir(here)
            if problem:
                shown = [text if len(text) < 80 else f"{text[:60]}..." for text in case.arguments]
                failures.append(f"{shown!r}: {problem}")
        assert http.get("/health").json()["status"] == "ok"
    tally["cases"] = len(chosen)
    assert not failures, f"{len(failures)} failed:\n" + "\n".join(failures[:MOST_SHOWN])
    return tally


if __name__ == "__main__":
    begun, numbers = time.monotonic(), [int(text) for text in sys.argv[1:3]]
    for outcome, times in sorted(walk(*numbers, *sys.argv[3:]).items()):
        print(f"{times:8,}  {outcome}")
    print(f"{time.monotonic() - begun:.0f} s")
