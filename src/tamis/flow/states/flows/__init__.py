"""States in flows: statements, how they are wired to spaces, and a run in plain Python."""
