"""The shared decision diagram: flat arrays, hash-consing, restriction, collection, drawing."""
