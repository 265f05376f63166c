"""STOMP and binary packets over TCP: connections, and what each of their messages asks for."""
