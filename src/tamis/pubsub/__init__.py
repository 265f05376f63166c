"""Publish and subscribe without sockets, clocks or files: values and bytes in, decisions out.

US 6,910,033: subjects, channels, packets, what filters cover and how they merge, and routing.
"""
