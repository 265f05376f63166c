"""Measurements inside a Spark session, each in a process of its own: `python -m bench.spark`."""
