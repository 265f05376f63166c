"""The broker as a machine without sockets, clock and disk (see machine.py)."""
