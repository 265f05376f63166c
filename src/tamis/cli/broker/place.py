"""Which broker a command talks to."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.client import Agent

HERE = "http://127.0.0.1:8216"


def need_broker() -> None:
    """Say in one sentence what is missing."""
    for name in ("argon2", "msgspec", "starlette", "uvicorn", "websockets"):
        if find_spec(name) is None:
            raise InputError(f"the broker needs {name}: pip install 'tamis[broker]'")


@Parameter(name="*")
@dataclass(frozen=True)
class Broker:
    """Which broker, and who asks: two options of every command that talks to one.

    Parameters
    ----------
    server
        The address of the broker.
    token
        A token that says who you are.
    """

    server: Annotated[str, Parameter(env_var="TAMIS_SERVER")] = HERE
    token: Annotated[
        str, Parameter(env_var="TAMIS_TOKEN", show_default=False, allow_leading_hyphen=True)
    ] = ""

    def agent(self) -> Agent:
        need_broker()
        from tamis.client import Agent

        return Agent(self.server, token=self.token)


LOCAL = Broker()
