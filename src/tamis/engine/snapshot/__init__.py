"""A matcher as one file, and the file as a matcher again."""
