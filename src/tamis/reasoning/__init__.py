"""Examples, covering and equality of conditions."""

from tamis.reasoning.covers import covers, example

__all__ = ["covers", "example"]
