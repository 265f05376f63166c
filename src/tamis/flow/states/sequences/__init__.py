"""Sequences of events: the states that they lead to, and shorter sequences to the same states."""
