"""A flow to look at: drawings, where columns come from, and why a message did not arrive."""

from tamis.flow.showing.drawing import mermaid, svg
from tamis.flow.showing.explaining import explain
from tamis.flow.showing.lineage import lineage
from tamis.flow.showing.notice import Notice
from tamis.flow.showing.notices import notices
from tamis.flow.showing.picture import Picture, picture

__all__ = ["Notice", "Picture", "explain", "lineage", "mermaid", "notices", "picture", "svg"]
