"""A browser without JavaScript, as far as forms go."""

from __future__ import annotations

import re


def token_of(text: str) -> str:
    """What the forms of a page carry."""
    return re.search(r'name="csrf" value="(\w+)"', text)[1]


def sent(http, path: str, at: str = "", **fields):
    """The answer to a form of the page `at`, sent as a browser does."""
    page = http.get(at or path)
    form = {"csrf": token_of(page.text), **fields}
    return http.post(path, data=form, headers={"origin": str(http.base_url).rstrip("/")})


def log_in(http, name: str = "", password: str = "", secret: str = "", **more):
    return sent(http, "/login", name=name, password=password, secret=secret, **more)
