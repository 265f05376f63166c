"""`tamis serve`."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import need_broker
from tamis.cli.broker.serving_options import (
    DELIVERIES,
    LISTENING,
    NETWORK,
    TOKEN,
    Deliveries,
    Listening,
    Network,
    settings_of,
)

DIRECTORY = Path("tamis-data")
Flag = Annotated[bool, Parameter(negative="")]


def serve(
    directory: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    demo: Flag = False,
    listening: Listening = LISTENING,
    without_principals: Flag = False,
    deliveries: Deliveries = DELIVERIES,
    network: Network = NETWORK,
    reports: Annotated[Path | None, Parameter(show_default=False)] = None,
    quiet: Flag = False,
    detach: Flag = False,
) -> None:
    """Run a broker that keeps everything in DIRECTORY, until Ctrl-C or SIGTERM.

    A browser shows it at the address where it listens.

    Parameters
    ----------
    directory
        Where messages, channels and subscriptions are kept; ./tamis-data by default.
    demo
        Sample channels and subscriptions, and messages that keep coming. Without DIRECTORY they
        are gone when it stops.
    without_principals
        Start on an address that other machines reach though no principal exists: all is refused
        until `tamis principal` makes one.
    reports
        A folder of reports that `tamis run --report` wrote; its pages list and show them.
    quiet
        Log warnings and errors only.
    detach
        Run in the background, logging to DIRECTORY/server.log; return once it listens.
    """
    need_broker()
    if detach:
        flags = {"demo": demo, "without_principals": without_principals, "reports": reports,
                 "quiet": quiet}  # fmt: skip
        groups = asdict(listening) | asdict(deliveries) | asdict(network)
        _detach(directory or DIRECTORY, groups | flags)
        return
    import logging

    from tamis.server.process.serve import run

    level = logging.WARNING if quiet else logging.INFO
    form = 'time=%(asctime)s level=%(levelname)s msg="%(message)s"'
    logging.basicConfig(level=level, format=form, stream=sys.stderr)
    with contextlib.ExitStack() as stack:
        if demo and directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tamis-demo-")))
        run(settings_of(directory or DIRECTORY, listening, deliveries, network,
                        demo=demo, without_principals=without_principals,
                        reports=reports))  # fmt: skip


def _detach(directory: Path, options: dict[str, object]) -> None:
    """Serve with the same options, in another process."""
    from tamis.server.detaching import start

    # All users of a machine can read the arguments of a process, but not its environment.
    secrets = {TOKEN: str(options.pop("parent_token"))}
    arguments = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, tuple) else [value] if value else []
        arguments += [option if one is True else f"{option}={one}" for one in values]
    status = start(directory, arguments, secrets)
    print(f"{status}; stop it with: tamis stop {shlex.quote(str(directory))}")


def stop(
    directory: Path = Path("tamis-data"),
    /,
    *,
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
) -> None:
    """Stop the broker that runs in DIRECTORY on this machine, and wait until it has stopped.

    Parameters
    ----------
    directory
        The directory of the broker.
    timeout
        Seconds to wait.
    """
    need_broker()
    from tamis.server.detaching import stop

    print(f"stopped process {stop(directory, timeout)}")
