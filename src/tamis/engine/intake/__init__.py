"""Selectors in, templates and keys out."""
