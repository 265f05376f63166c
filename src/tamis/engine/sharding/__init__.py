"""Sets of subscriptions cut into shards, and messages routed to them."""
