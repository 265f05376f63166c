"""The broker on sockets: HTTP, WebSocket, event streams, STOMP. `tamis serve` starts it."""
