"""Pictures of graphs: layered, as Mermaid text, or as SVG that needs nothing else."""

from tamis.drawing.mermaid import mermaid
from tamis.drawing.svg import svg

__all__ = ["mermaid", "svg"]
