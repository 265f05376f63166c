"""Working with a set of rules: tests with sample messages, differences, what covers what."""
