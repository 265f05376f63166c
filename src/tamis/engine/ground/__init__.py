"""What all rooms of the engine share: arrays, ids, results."""
