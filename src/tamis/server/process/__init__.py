"""The process that serves: its sockets, its settings, its end."""
