"""The parts of a running broker, and what needs all of them."""
