"""Subscriptions in, matches out."""

from tamis.engine.details import Details
from tamis.engine.ground.ids import Id
from tamis.engine.ground.matches import Matches
from tamis.engine.matcher import Matcher

__all__ = ["Details", "Id", "Matcher", "Matches"]
