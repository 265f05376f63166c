"""The text form of flows: text to statements and back."""

from tamis.flow.text.printer import printed
from tamis.flow.text.reader import parse_flow, read_flow

__all__ = ["parse_flow", "printed", "read_flow"]
