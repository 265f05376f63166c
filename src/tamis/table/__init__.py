"""A table of subscriptions on a file system: versioned, and safe from crashes."""

from tamis.table.subscriptions import Change, Subscriptions

__all__ = ["Change", "Subscriptions"]
