"""A flow to look at: drawings, where columns come from, and why a message did not arrive."""

from tamis.drawing import mermaid, svg
from tamis.drawing.pictures import Picture
from tamis.flow.showing.flow_explanations import explain
from tamis.flow.showing.flow_notices import notices
from tamis.flow.showing.flow_pictures import picture
from tamis.flow.showing.lineage import lineage
from tamis.flow.showing.notice import Notice

__all__ = ["Notice", "Picture", "explain", "lineage", "mermaid", "notices", "picture", "svg"]
