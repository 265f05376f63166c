"""Links between routers, without sockets and clock (see router.py, and docs/links.md)."""
