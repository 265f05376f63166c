"""Selectors become templates and keys."""
