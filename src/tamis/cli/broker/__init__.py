"""The commands of the broker."""

from tamis.cli.broker import served_flows  # noqa: F401 - adds to `tamis flow`
from tamis.cli.broker.channel_commands import channel
from tamis.cli.broker.links import links
from tamis.cli.broker.message_commands import publish, subscribe
from tamis.cli.broker.principal_commands import principal
from tamis.cli.broker.rights_commands import access
from tamis.cli.broker.serving import serve, stop
from tamis.cli.broker.status import status, top
from tamis.cli.broker.subscription_commands import subscription

COMMANDS = (
    *(serve, stop, status, top, channel, publish, subscribe, subscription, principal, access),
    links,
)
