"""One rule for compiled code: what was compiled from other sources is not used.

numba keeps compiled kernels beside their module and compiles again when that module
changes, but not when a kernel that it calls changes in another module. So all modules
with kernels share one stamp; where it differs, everything compiled is thrown away.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

_ROOT = Path(__file__).parent
_MODULES = (
    "diagram/intervals.py",
    "diagram/kernels.py",
    "diagram/reference.py",
    "engine/compile.py",
    "engine/cubes.py",
    "engine/direct.py",
    "engine/firing.py",
    "engine/implications/edges.py",
    "engine/implications/rank.py",
    "engine/implications/trees.py",
    "engine/kernels.py",
    "engine/narrow.py",
    "engine/outputs.py",
    "engine/plan.py",
    "engine/strings.py",
    "engine/texts.py",
    "engine/vector.py",
    "engine/wide.py",
    "engine/words.py",
)
_LOG = logging.getLogger("tamis")
_STAMP = _ROOT / "__pycache__" / "kernels.stamp"


def refresh() -> bool:
    """Drop what was compiled from other sources, and say what that costs; True where that is so.

    Quiet where it may not write.
    """
    present = [_ROOT / name for name in _MODULES if (_ROOT / name).exists()]
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in present)).hexdigest()
    try:
        if _STAMP.exists() and _STAMP.read_text() == stamp:
            return False
        for folder in {path.parent / "__pycache__" for path in present}:
            for compiled in folder.glob("*.nb[ci]"):
                compiled.unlink(missing_ok=True)
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(stamp)
    except OSError:
        return False
    # Silence would look like a hang. `python -m tamis.warm` gets it over with.
    _LOG.warning("compiling for this machine, once: the first match takes a minute or so")
    return True
