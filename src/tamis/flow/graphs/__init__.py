"""A checked flow: its graph, the states in it, and its meaning in plain Python."""
