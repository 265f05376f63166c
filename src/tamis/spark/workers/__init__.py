"""What runs in Python workers, and how matchers get there."""
