"""Messages in, blocks out: keys among thresholds, flags, fired events."""
