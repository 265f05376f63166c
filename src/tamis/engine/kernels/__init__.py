"""Compiled loops that evaluate blocks against segments."""
