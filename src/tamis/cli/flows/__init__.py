"""`tamis flow` and its commands."""

from tamis.cli.flows.flow_commands import flow_app

__all__ = ["flow_app"]
