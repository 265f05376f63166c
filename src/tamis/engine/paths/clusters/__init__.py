"""Events lead to clusters of subscriptions."""
