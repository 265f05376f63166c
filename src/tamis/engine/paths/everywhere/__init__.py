"""The path that every message takes: cluster 0."""
