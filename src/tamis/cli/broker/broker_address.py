"""Which broker a command talks to."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.client import Agent

HERE = "http://127.0.0.1:8216"


def need_broker() -> None:
    """Say in one sentence what is missing."""
    for name in ("argon2", "cryptography", "msgspec", "starlette", "uvicorn", "websockets"):
        if find_spec(name) is None:
            raise InputError(f"the broker needs {name}: pip install 'tamis[broker]'")


@Parameter(name="*")
@dataclass(frozen=True)
class Broker:
    """Which broker, and who asks: options of every command that talks to one.

    Parameters
    ----------
    server
        The address of the broker; of a network several, with commas: the next one is taken when
        one does not answer.
    token
        A token that says who you are.
    timeout
        Seconds within which the broker must answer.
    ca
        A file of certificate authorities for https, instead of those of the system.
    """

    server: Annotated[str, Parameter(env_var="TAMIS_SERVER")] = HERE
    token: Annotated[
        str, Parameter(env_var="TAMIS_TOKEN", show_default=False, allow_leading_hyphen=True)
    ] = ""
    timeout: Annotated[float, Parameter(env_var="TAMIS_TIMEOUT", validator=Number(gt=0))] = 30.0
    ca: Annotated[str, Parameter(env_var="TAMIS_CA", show_default=False)] = ""

    def agent(self) -> Agent:
        need_broker()
        from tamis.client import Agent

        servers = self.server.split(",")
        return Agent(servers, token=self.token, timeout=self.timeout, ca=self.ca)


def api(*parts: str) -> str:
    """The path of a route; names may hold any character."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


LOCAL = Broker()
