"""The commands of the broker."""

from tamis.cli.broker import served_flows  # noqa: F401 - adds to `tamis flow`
from tamis.cli.broker.access import access
from tamis.cli.broker.channels import channel
from tamis.cli.broker.links import links
from tamis.cli.broker.messages import publish, subscribe
from tamis.cli.broker.principals import principal
from tamis.cli.broker.serving import serve, stop
from tamis.cli.broker.status import status, top
from tamis.cli.broker.subscriptions import subscription

COMMANDS = (
    *(serve, stop, status, top, channel, publish, subscribe, subscription, principal, access),
    links,
)
