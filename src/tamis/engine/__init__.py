"""Subscriptions in, matches out."""

from tamis.engine.matcher import Id, Matcher
from tamis.engine.matches import Matches

__all__ = ["Id", "Matcher", "Matches"]
