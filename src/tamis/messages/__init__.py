"""Messages: what their attributes are worth, and how files of them are read."""

from tamis.messages.values import lookup

__all__ = ["lookup"]
