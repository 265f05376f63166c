"""What `sigma convert -t tamis` finds: see docs/import.md."""

from tamis.rules.sigma_backend import TamisBackend

backends = {"tamis": TamisBackend}

__all__ = ["TamisBackend"]
