"""Subscriptions compiled together into segments."""
