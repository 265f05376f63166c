"""From one state to another: the cheapest sequence of events (Gryphon, section 4.3)."""
