"""The commands. Each parses its options, calls one function and prints."""

from tamis.cli.commands import app, main

__all__ = ["app", "main"]
