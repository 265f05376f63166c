"""Compiled kernels belong to the sources that they were compiled from."""

import ast
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher

import tamis
from tamis import warm
from tamis.jit import cache
from tamis.jit.cache import modules

EXAMPLE = """
from tamis import Matcher, Schema
from tamis.jit.first_use import FIRST_USE
matcher = Matcher(Schema.of(company=str, product=str, price=float))
matcher.add("alice", "price < 1500 AND company CONTAINS 'IBM'")
matcher.add("bob", "company IN ('IBM', 'Dell') AND NOT price BETWEEN 10 AND 20")
print(matcher.match({"company": "IBM", "price": 1200.0}), matcher.match({"company": "Dell"}))
more = [{"company": "IBM", "price": 15.0}, {"company": "Dell", "price": 5.0}]
print(matcher.match_many(more).to_pylist())
print(any(kernel.signatures for kernel in FIRST_USE.waiting))
"""
SWITCH = """
import time
from tamis.diagram.bdd import slot_of
from tamis.jit.first_use import heavy
from tamis.jit.first_use import FIRST_USE
plain = slot_of(1, 2, 3, 64)
print(plain, slot_of.signatures)
heavy(10**9)
print(slot_of(1, 2, 3, 64), len(slot_of.signatures), FIRST_USE.plain)
"""
CHECK = """
from tamis.cli import app
app(["check", "--file", "rules.jsonl"])
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Tamis as it is after an install: nothing is compiled."""
    source = Path(tamis.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(source, tmp_path / "tamis", ignore=ignored))


def run(package: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    chosen = {"PYTHONPATH": str(package.parent), "PATH": "", **environment}
    return subprocess.run(command, env=chosen, capture_output=True, text=True, check=True)


def test_a_fresh_install_answers_before_anything_is_compiled(package: Path) -> None:
    done = run(package, EXAMPLE, TAMIS_KERNELS="plain")
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['alice', 'bob'] []", "[['alice'], ['bob']]", "False"]


def test_an_import_writes_nothing(package: Path) -> None:
    before = sorted(package.rglob("*"))
    run(package, "import sys; sys.dont_write_bytecode = True\nimport tamis, tamis.jit.kernel\n"
        "import tamis.engine.matcher, tamis.pubsub.wire, tamis.flow, tamis.jit.cache")  # fmt: skip
    assert sorted(package.rglob("*")) == before


def test_work_that_is_too_much_waits_for_compiled_kernels(package: Path) -> None:
    """The process that compiles is given nothing to do: kernels compile when they are called."""
    quick = "from tamis.jit.cache import CACHE\nCACHE.all_compiled()\n"
    (package / "warm.py").write_text(quick)
    done = run(package, SWITCH)
    plain, compiled = done.stdout.splitlines()
    assert plain.split() == [compiled.split()[0], "[]"]
    assert compiled.split()[1:] == ["1", "False"]
    assert "compiling kernels for this machine" in done.stderr
    again = run(package, SWITCH)  # now all is there, as far as anybody knows
    assert "compiling" not in again.stderr


def test_one_process_compiles_for_all(package: Path, tmp_path: Path) -> None:
    """Four processes begin at once, and one of them forks a child that outlives it all."""
    slow = f"""
import sys, time
from tamis.jit.cache import CACHE
print("compiling", file=open({str(tmp_path / "log")!r}, "a"))
time.sleep(1)
CACHE.all_compiled()
"""
    (package / "warm.py").write_text(slow)
    fork = "import os\ntime.sleep(0.5)\nif os.fork() == 0:\n    time.sleep(15)\n    os._exit(0)\n"
    codes = [SWITCH.replace("heavy(10**9)", fork + "heavy(10**9)"), *[SWITCH] * 3]
    environment = {"PYTHONPATH": str(package.parent), "PATH": ""}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
        for code in codes
    ]
    assert [process.wait(timeout=60) for process in running] == [0] * 4
    assert (tmp_path / "log").read_text() == "compiling\n"


@pytest.mark.parametrize(("rules", "listed"), [(20, True), (5_000, False)])
def test_a_file_is_checked_before_anything_is_compiled(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: int, listed: bool
) -> None:
    """Bad ones are always found; many more are looked at as diagrams once kernels are compiled."""
    (package / "warm.py").write_text("import time; time.sleep(5)")
    selectors = ["price < 1 AND price > 2"] + [f"price < {i}" for i in range(rules)]
    lines = [json.dumps({"id": i, "selector": text}) for i, text in enumerate(selectors)]
    monkeypatch.chdir(tmp_path)
    Path("rules.jsonl").write_text("\n".join(lines))
    told = run(package, CHECK)
    assert told.stdout == f"rules.jsonl: {rules + 1:,} good subscriptions\n"
    assert ("subscription 0: no message can match it" in told.stderr) is listed
    assert ("being compiled" in told.stderr) is not listed
    Path("rules.jsonl").write_text("\n".join([*lines, '{"id": 0, "selector": "price <"}']))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(package, CHECK)
    assert "subscription 0" in failed.value.stderr


def test_compiling_is_tried_again_by_the_next(package: Path, tmp_path: Path) -> None:
    """A process that fails to compile gives the turn back."""
    failing = f"print('trying', file=open({str(tmp_path / 'log')!r}, 'a')); raise SystemExit(1)"
    (package / "warm.py").write_text(failing)
    for tries in (1, 2):
        run(package, SWITCH)
        assert (tmp_path / "log").read_text() == "trying\n" * tries


@pytest.mark.parametrize(
    "changed", ["engine/paths/clusters/touching.py", "engine/ground/layout.py"]
)
def test_what_other_sources_were_compiled_to_is_dropped(changed: str, package: Path) -> None:
    look = "from tamis.jit.cache import CACHE; print(CACHE.ready)"
    assert run(package, look + "; CACHE.all_compiled()").stdout == "False\n"
    assert run(package, look).stdout == "True\n"
    compiled = package / "engine" / "paths" / "clusters" / "__pycache__" / "touching.old.nbi"
    compiled.parent.mkdir(exist_ok=True)
    compiled.touch()
    assert run(package, look).stdout == "True\n"
    assert compiled.exists()
    source = package / changed
    source.write_text(source.read_text() + "# changed\n")
    assert run(package, look).stdout == "False\n"
    assert not compiled.exists()


def test_a_folder_that_is_read_only_is_not_needed(tmp_path: Path, monkeypatch) -> None:
    """What an administrator compiled is taken over; what others could have written is not."""
    package, writable = Path(tamis.__file__).parent, cache._writable
    monkeypatch.setattr(cache, "_writable", lambda f: package not in f.parents and writable(f))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark, read = cache.Cache()._mark, cache._read
    ready = package / "__pycache__" / "kernels.ready"
    monkeypatch.setattr(cache, "_read", lambda f: mark if f == ready else read(f))
    store = cache.Cache()
    assert store.elsewhere is not None
    assert tmp_path in store.elsewhere.parents
    assert store.ready
    assert store.count() == len(list(package.rglob("*.nbi")))
    dispatcher = numba.njit(lambda: None)
    store.attach(dispatcher)
    assert store.elsewhere in Path(dispatcher.stats.cache_path).parents
    (tmp_path / "tamis").chmod(0o777)
    other = cache.Cache().elsewhere
    assert other is None or tmp_path not in other.parents


# --- kernels that kernels call (tamis/jit/linking.py) -----------------------------

FEW = """
from tamis.jit.kernel import kernel

@kernel
def scaled(x, by):
    if by < 0:
        raise ValueError("negative")
    return x * by + 1

@kernel
def total(values, by):
    sum = 0
    for i in range(len(values)):
        sum += scaled(values[i], by)
    return sum

@kernel
def outer(values, by):
    return total(values, by) + scaled(values[0], 7)
"""
BEGIN = """
import numpy as np
from few import outer, scaled, total
from tamis.jit.kernel import _has_code
values = np.arange(5, dtype=np.int32)

def shown(kernel):
    own = kernel.overloads.values()
    return [len(own), sum(map(_has_code, own)), sum(kernel.stats.cache_hits.values())]
"""
# By `outer` only; then by Python too; and errors come through.
IN_ORDER = """
print(outer(values, 3))
print(shown(scaled), shown(total), shown(outer))
print(total(values, 3), scaled(2, 3), outer(values, 3))
try:
    outer(values, -1)
except ValueError as error:
    print(error)
"""
ANSWERS = ["36", "35 7 36", "negative"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A module with three kernels, whose files are kept beside it."""
    (tmp_path / "few.py").write_text(FEW)
    return tmp_path


def run_few(few: Path, code: str) -> list[str]:
    path = f"{few}:{Path(tamis.__file__).parents[1]}"
    return run(few / "few.py", BEGIN + code, PYTHONPATH=path).stdout.splitlines()


def kept(few: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in few.rglob("*.nbi"))


def test_kernels_that_only_kernels_call_have_no_machine_code_and_no_file(few: Path) -> None:
    assert run_few(few, "print(outer(values, 3), shown(scaled), shown(total), shown(outer))") == [
        "36 [1, 0, 0] [1, 0, 0] [1, 1, 0]"
    ]
    assert kept(few) == ["few.outer"]


def test_python_may_call_a_kernel_that_kernels_called_first(few: Path) -> None:
    first, how, *rest = run_few(few, IN_ORDER)
    assert [first, *rest] == ANSWERS
    assert how == "[1, 0, 0] [1, 0, 0] [1, 1, 0]"
    assert kept(few) == ["few.outer", "few.scaled", "few.total"]
    assert run_few(few, IN_ORDER)[2:] == ANSWERS[1:]  # all from files


def test_a_kernel_from_a_file_is_linked_into_one_that_is_compiled(few: Path) -> None:
    assert run_few(few, "print(total(values, np.int64(3)))") == ["35"]
    again = "print(outer(values, np.int64(3)), shown(total), shown(outer), scaled(2, 3))"
    assert run_few(few, again) == ["36 [1, 1, 1] [1, 1, 0] 7"]
    assert run_few(few, again) == ["36 [0, 0, 0] [1, 1, 1] 7"]


def test_threads_may_compile_kernels_that_call_each_other(few: Path) -> None:
    at_once = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
start = Barrier(8)
tasks = [lambda: outer(values, 3), lambda: total(values, 3), lambda: scaled(2, 3)]
tasks += [lambda: outer(values.astype(np.int64), 3), lambda: total(values * 1.0, 3)]
tasks += tasks[:3]

def call(task):
    start.wait()
    return [int(task()) for _ in range(100)]

with ThreadPoolExecutor(8) as pool:
    print(*({*found} for found in pool.map(call, tasks)))
"""
    assert run_few(few, at_once) == ["{36} {35} {7} {36} {35} {36} {35} {7}"]


def test_functions_of_other_packages_may_call_kernels(few: Path) -> None:
    foreign = """
from numba import njit
print(njit(lambda values: total(values, 3))(values), outer(values, 3))
print(njit(lambda values: scaled(values[1], 3) + outer(values, 3))(values))
"""
    assert run_few(few, foreign) == ["35 36", "40"]


def test_where_numba_is_built_otherwise_kernels_compile_its_way(few: Path) -> None:
    first, how, *rest = run_few(
        few, "from tamis.jit import linking\nlinking.KNOWN = False" + IN_ORDER
    )
    assert [first, *rest] == ANSWERS
    assert how == "[1, 1, 0] [1, 1, 0] [1, 1, 0]"
    assert kept(few) == ["few.outer", "few.scaled", "few.total"]


TYPED_BY_NUMBA = "# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs\n"
PLAIN = {"diagram/packed.py", "jit/vectors.py"}  # their functions have types


def test_modules_with_kernels_say_so_to_mypy_and_no_others_do() -> None:
    package = Path(tamis.__file__).parent
    lenient = {path for path in package.rglob("*.py") if TYPED_BY_NUMBA in path.read_text()}
    assert lenient == set(modules()) - {package / name for name in PLAIN}


def test_kernels_take_at_most_eight_parameters() -> None:
    """What is more belongs into a bundle with names."""
    found = {
        (path.name, one.name): len(one.args.args)
        for path in modules()
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.FunctionDef)
        and any("kernel" in ast.unparse(decorator) for decorator in one.decorator_list)
    }
    assert found
    assert {name: count for name, count in found.items() if count > 8} == {}


def test_python_calls_kernels_that_return_arrays_where_ctrl_c_waits() -> None:
    """numba makes their arrays by calling Python, and crashes where that is interrupted."""
    warm._engine()
    warm._others()
    package = Path(tamis.__file__).parent
    names = [path.relative_to(package.parent).with_suffix("") for path in modules()]
    found = [importlib.import_module(".".join(name.parts)) for name in names]
    kernels = [k for module in found for k in vars(module).values() if isinstance(k, Dispatcher)]
    returning = {
        kernel.py_func.__name__
        for kernel in kernels
        for overload in kernel.overloads.values()
        if _has_array(overload.signature.return_type)
    }
    assert "cubes_of" in returning
    calls = [call for path in package.rglob("*.py") for call in _python_calls(path)]
    allowed = _plain_functions(package)
    assert [call for call in calls if call[1] in returning - allowed] == []


def _has_array(kind: types.Type) -> bool:
    if isinstance(kind, types.BaseTuple):
        return isinstance(kind, types.BaseNamedTuple) or any(map(_has_array, kind))
    return isinstance(kind, types.Array)


def _plain_functions(package: Path) -> set[str]:
    """Names that plain functions have as well: a call of such a name says nothing."""
    trees = [ast.parse(path.read_text()) for path in package.rglob("*.py")]
    functions = [f for tree in trees for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]
    plain = [f for f in functions if not any("kernel" in ast.dump(d) for d in f.decorator_list)]
    return {f.name for f in plain}


def _python_calls(path: Path) -> list[tuple[str, str]]:
    """The functions that are called outside of kernels."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    plain = [f for f in functions if not any("kernel" in ast.dump(d) for d in f.decorator_list)]
    calls = [call for f in plain for call in ast.walk(f) if isinstance(call, ast.Call)]
    return [(path.name, ast.unparse(call.func).rpartition(".")[2]) for call in calls]
