"""`tamis run` and its options, which flows and the broker take as well."""
