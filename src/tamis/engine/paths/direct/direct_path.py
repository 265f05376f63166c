"""Direct: in batches, values lead to rows without a detour by events.

It takes over the clusters that one value leads to. What it needs is made of these when a segment
meets its first batch, so snapshots hold nothing of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tamis.engine.choosing.path import (
    FEW_MESSAGES,
    IDLE,
    Arrays,
    Building,
    Frame,
    Path,
    PathInput,
    Wanted,
)
from tamis.engine.ground.kernel_output import Output
from tamis.engine.ground.layout import I8
from tamis.engine.ground.lazy import lazy
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.direct.direct_plans import AccessValues, Plan, plan_of
from tamis.engine.paths.direct.direct_run import run_direct, run_lone
from tamis.engine.paths.direct.signatures import by_value, sign_flags, sign_values
from tamis.engine.values.block import Encoded, stacked
from tamis.engine.values.term_program import computed_terms
from tamis.jit.kernel import arrays_from


class Led(NamedTuple):
    """Of a batch: which values lead to rows, and to lone cubes; the signature of each message."""

    rows: AccessValues
    lone: AccessValues
    signature: I8


class DirectPath(Path):
    BATCHES = True

    def __init__(self, clusters: ClusterPath) -> None:
        self.clusters = clusters

    @classmethod
    def build(cls, building: Building) -> DirectPath:
        return cls(building.path(ClusterPath))

    @classmethod
    def check(cls, arrays: Arrays, frame: Frame) -> DirectPath:
        return cls(frame.path(ClusterPath))

    @lazy
    def plan(self) -> Plan:
        return plan_of(self.clusters, computed_terms(self.clusters.index))

    def follow(self, old: Path) -> None:
        if "plan" in vars(old):
            self.plan  # noqa: B018 - batches are matched here, too

    def prepare(self, encoded: Encoded, wanted: Wanted) -> Any:
        length = encoded.flags.shape[1]
        if length <= FEW_MESSAGES or not self.clusters.busy:
            return IDLE
        plan = self.plan
        wanted.access = plan.access
        led = [(f.code, plan.begins[f.field]) for f in encoded.features if f.field in plan.begins]
        if not led:
            return IDLE
        signature = np.zeros(length if plan.shifts or plan.flags else 0, np.int64)
        for (column, bit), place in plan.flags.items():
            sign_flags(encoded.flags[column], np.uint8(bit), place, signature)
        for feature in encoded.features:
            if feature.field in plan.shifts:
                sign_values(feature.code, plan.shifts[feature.field], signature)
        order, places = [np.empty(0, np.int32)], np.zeros(len(led) + 1, np.int64)
        for i, (code, begin) in enumerate(led):
            if plan.large and length > begin.values:
                order.append(arrays_from(by_value, code, begin.values))
                places[i + 1] = len(order[-1])
        known = stacked([code for code, _ in led]), np.concatenate(order), np.cumsum(places)
        rows = np.array([begin.row for _, begin in led], np.int64)
        lone = np.array([begin.lone for _, begin in led], np.int64)
        return Led(
            AccessValues(plan.begin, rows, *known),
            AccessValues(plan.lone.begin, lone, *known),
            signature,
        )

    def run(self, messages: PathInput, own: Led, output: Output, mode: int) -> None:
        block, rows, lone = messages.block, self.plan.rows, self.plan.lone
        if len(rows.row):
            run_direct(rows, own.rows, block.keys, block.flags, own.signature, output, mode)
        if len(lone.owner):
            run_lone(lone, own.lone, block.keys, output, mode)
