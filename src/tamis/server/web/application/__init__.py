"""The routes as one application, and their description."""
