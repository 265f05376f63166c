"""`tamis try`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import need_broker
from tamis.errors import InputError


def try_selectors(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 0,
    no_browser: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Open the playground in a browser: selectors, messages, and why they match. Until Ctrl-C.

    Parameters
    ----------
    port
        The port on the loopback; 0 is any that is free.
    no_browser
        Print the address only.
    """
    need_broker()
    from tamis.server.pages.alone import run

    try:
        run(port, not no_browser, lambda place: print(f"playground at {place}", flush=True))
    except OSError as error:
        raise InputError(f"port {port}: {error.strerror}") from None
