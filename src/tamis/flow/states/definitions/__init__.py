"""What a state is: components, rules, keys, and what one event does."""
