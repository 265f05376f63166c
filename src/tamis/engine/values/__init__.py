"""Messages become blocks."""
