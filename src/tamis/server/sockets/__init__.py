"""Connections as such, whatever protocol they speak: how many, how long, how much unread."""
