"""Filters of routers: what covers what, and what to ask of neighbours on behalf of many."""

from tamis.pubsub.filters.covering import Interest, Piece, covers, overlaps
from tamis.pubsub.filters.merge import Change, Merge

__all__ = ["Change", "Interest", "Merge", "Piece", "covers", "overlaps"]
