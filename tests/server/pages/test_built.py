"""The built scripts and styles: their sources, their sizes, and that they are not outdated."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "src/tamis/server/pages/static"
SOURCES = ROOT / "pages"
FILES = [path for path in STATIC.iterdir() if path.name != "NOTICES.txt"]
LARGEST = 200_000  # bytes of the first page, packed as browsers get it


def test_every_name_has_the_hash_of_its_file():
    for path in FILES:
        own = hashlib.sha256(path.read_bytes()).hexdigest()[:8].upper()
        assert re.fullmatch(rf"\w+-{own}\.(js|css|svg)", path.name), path.name


def test_a_first_visit_costs_little():
    packed = {path.name: len(gzip.compress(path.read_bytes())) for path in FILES}
    assert sum(packed.values()) < LARGEST, packed


def test_the_lock_names_no_registry():
    text = (SOURCES / "package-lock.json").read_text()
    assert "resolved" not in text
    assert "://" not in re.sub(r'"funding": \{.*?\}', "", text, flags=re.S)


def test_every_package_that_is_inside_has_its_notice():
    wanted = json.loads((SOURCES / "package.json").read_text())["devDependencies"]
    notices = (STATIC / "NOTICES.txt").read_text()
    for name in wanted.keys() - {"esbuild", "typescript"}:
        version = wanted[name]
        assert f"{name} {version}\n" in notices
    assert notices.count("Permission is hereby granted") > 8


def test_a_rebuild_gives_the_same_bytes():
    if not (SOURCES / "node_modules").is_dir() or shutil.which("npm") is None:
        pytest.skip("pages/node_modules is not there (cd pages && npm ci)")
    done = subprocess.run(["npm", "run", "check"], cwd=SOURCES, capture_output=True, text=True,
                          env={**os.environ, "CI": "1"}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
