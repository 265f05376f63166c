"""HTTP, WebSocket and event streams."""
