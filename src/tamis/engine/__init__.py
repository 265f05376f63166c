"""Subscriptions in, matches out."""

from tamis.engine.details import Details
from tamis.engine.ids import Id
from tamis.engine.matcher import Matcher
from tamis.engine.matches import Matches

__all__ = ["Details", "Id", "Matcher", "Matches"]
