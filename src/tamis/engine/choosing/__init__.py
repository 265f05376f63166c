"""How paths are chosen: the protocol of a path, and the claims of paths."""
