"""The text form of flows: text to statements and back."""

from tamis.flow.text.flow_printer import printed
from tamis.flow.text.flow_reader import parse_flow, read_flow

__all__ = ["parse_flow", "printed", "read_flow"]
