"""The compiled fold: rules as a program, events as columns."""
