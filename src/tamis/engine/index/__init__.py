"""Indexes: what a segment asks of each term, looked up by value."""
