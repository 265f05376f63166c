"""Jobs: what `tamis run` reads, runs and reports."""
