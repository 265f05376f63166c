"""Compiled kernels belong to the sources that they were compiled from."""

import shutil
import subprocess
import sys
from pathlib import Path

import tamis

IMPORT = "import logging; logging.basicConfig(); import tamis.diagram"


def test_the_first_use_says_that_it_compiles(tmp_path: Path) -> None:
    package = tmp_path / "tamis"
    source = Path(tamis.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))

    def said() -> str:
        command = [sys.executable, "-c", IMPORT]
        environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stderr

    assert "the first match takes a minute" in said()
    assert said() == ""
    kernels = package / "engine" / "kernels.py"
    kernels.write_text(kernels.read_text() + "# changed\n")
    compiled = package / "engine" / "__pycache__" / "kernels.old.nbi"
    compiled.parent.mkdir(exist_ok=True)
    compiled.touch()
    assert "the first match takes a minute" in said()
    assert not compiled.exists()
