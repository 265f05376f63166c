"""Memory that connections needed goes back to the system: glibc keeps it otherwise."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Takes milliseconds: not for the event loop. Does nothing on systems without glibc."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
