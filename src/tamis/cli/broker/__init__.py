"""The commands of the broker."""

from tamis.cli.broker.channels import channel
from tamis.cli.broker.messages import publish, subscribe
from tamis.cli.broker.principals import principal
from tamis.cli.broker.serving import serve, stop

COMMANDS = (serve, stop, publish, subscribe, principal, channel)
