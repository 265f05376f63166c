"""Compiled kernels belong to the sources that they were compiled from."""

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher

import tamis
from tamis import compiled, warm
from tamis.compiled import modules

EXAMPLE = """
from tamis import Matcher, Schema
from tamis.kernel import _KERNELS
matcher = Matcher(Schema.of(company=str, product=str, price=float))
matcher.add("alice", "price < 1500 AND company CONTAINS 'IBM'")
matcher.add("bob", "company IN ('IBM', 'Dell') AND NOT price BETWEEN 10 AND 20")
print(matcher.match({"company": "IBM", "price": 1200.0}), matcher.match({"company": "Dell"}))
more = [{"company": "IBM", "price": 15.0}, {"company": "Dell", "price": 5.0}]
print(matcher.match_many(more).to_pylist())
print(any(kernel.signatures for kernel in _KERNELS))
"""
SWITCH = """
import time
from tamis.diagram.bdd import slot_of
from tamis.kernel import _FIRST_USE, heavy
plain = slot_of(1, 2, 3, 64)
print(plain, slot_of.signatures)
heavy(10**9)
print(slot_of(1, 2, 3, 64), len(slot_of.signatures), _FIRST_USE.plain)
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


def test_work_that_is_too_much_waits_for_compiled_kernels(package: Path) -> None:
    """The process that compiles is given nothing to do: kernels compile when they are called."""
    quick = "from tamis.kernel import STORE\nSTORE.all_compiled()\n"
    (package / "warm.py").write_text(quick)
    done = run(package, SWITCH)
    plain, compiled = done.stdout.splitlines()
    assert plain.split() == [compiled.split()[0], "[]"]
    assert compiled.split()[1:] == ["1", "False"]
    assert "compiling for this machine" in done.stderr
    again = run(package, SWITCH)  # now all is there, as far as anybody knows
    assert "compiling" not in again.stderr


@pytest.mark.parametrize("changed", ["engine/kernels/run.py", "engine/layout.py"])
def test_what_other_sources_were_compiled_to_is_dropped(changed: str, package: Path) -> None:
    look = "from tamis.kernel import STORE; print(STORE.ready)"
    assert run(package, look + "; STORE.all_compiled()").stdout == "False\n"
    assert run(package, look).stdout == "True\n"
    compiled = package / "engine" / "kernels" / "__pycache__" / "run.old.nbi"
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
    package, writable = Path(tamis.__file__).parent, compiled._writable
    monkeypatch.setattr(compiled, "_writable", lambda f: package not in f.parents and writable(f))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark, read = compiled.Store()._mark, compiled._read
    ready = package / "__pycache__" / "kernels.ready"
    monkeypatch.setattr(compiled, "_read", lambda f: mark if f == ready else read(f))
    shutil.rmtree(tmp_path / "tamis")
    store = compiled.Store()
    assert store.elsewhere is not None
    assert tmp_path in store.elsewhere.parents
    assert store.ready
    assert store.count() == len(list(package.rglob("*.nbi")))
    with store.in_use():
        assert str(store.elsewhere) == numba.config.CACHE_DIR
    (tmp_path / "tamis").chmod(0o777)
    other = compiled.Store().elsewhere
    assert other is None or tmp_path not in other.parents


TYPED_BY_NUMBA = "# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs\n"
PLAIN = {"diagram/packed.py", "engine/simd.py"}  # their functions have types


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
    warm._compile()
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
