"""Plans as text."""

from __future__ import annotations

from tamis.flow.rewriting.plan import Plan, node_name
from tamis.flow.text.flow_printer import step_text
from tamis.language import canonical


def plan_text(plan: Plan) -> str:
    """The edges of the graph, or the paths with what they share."""
    lines = []
    for source, outputs in plan.shared.items():
        for output in outputs:
            lines.append(f"{source}: {output.name} := {canonical(output.term)}")
    if not plan.paths and not plan.dropped:
        for edge in plan.edges:
            steps = "; ".join(map(step_text, edge.steps)) or "all"
            lines.append(f"{node_name(edge.start)} -> {node_name(edge.end)} : {steps}")
    for path in plan.paths:
        steps = "; ".join(map(step_text, path.steps)) or "all"
        end = f"{path.target}_{'rejected' if path.rejected else 's'}"
        lines.append(f"{node_name(plan.entry(path.source))} -> {end} : {steps}")
    lines += [f"# {p.source} -> {p.target} is left out: {why}" for p, why in plan.dropped]
    return "\n".join(lines)
