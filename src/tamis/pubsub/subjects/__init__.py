"""Subjects and their wildcards; channels, their types of attributes and their files."""
