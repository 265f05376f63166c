"""The subscriptions of a matcher while they change: states, merging, ids."""
