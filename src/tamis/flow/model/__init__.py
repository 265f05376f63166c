"""What flows are made of: spaces, arcs, steps, lookups; expressions, types and limits."""
