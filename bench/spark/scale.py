"""How large everything on Spark is. Apart from the rest: it is read where there is no Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int  # stock messages
    icse_rows: int
    stock: int  # alerts beside the pass-through and in the stream
    icse: int  # queries beside the pass-through
    growth: tuple[int, ...]  # alerts
    cores: tuple[int, ...]
    rules: tuple[int, ...]  # beside what users do today
    planned: int  # rules at most for a column each: Spark's planner gets no further
    united: int  # rules at most for a union of filters
    enough: float  # seconds for a slow peer
    sample: int  # rows whose answers are compared
    streams: int  # first micro-batches
    workers: int  # Python workers whose memory is looked at
    plan_rows: int  # stock messages for the comparison of plans
    simple: tuple[int, ...]  # rules for which native plans and the matcher are compared
    mixed: tuple[int, ...]
    turns: int  # of those jobs
    carry: tuple[int, int]  # rules and rows of which each matches a great part


SCALES = {
    "full": Scale(
        *(4_000_000, 1_000_000, 100_000, 100_000, (1_000, 10_000, 100_000, 1_000_000), (1, 2)),
        *((100, 1_000, 10_000), 1_000, 100, 8.0, 400, 5, 4),
        *(
            5_000_000,
            (10, 100, 1_000, 3_000, 10_000),
            (4, 8, 16, 32, 100, 1_000),
            3,
            (10_000, 4_000),
        ),
    ),
    "quick": Scale(
        *(100_000, 30_000, 10_000, 1_000, (1_000, 10_000), (2,)),
        *((100,), 100, 50, 0.5, 100, 2, 2),
        *(100_000, (10, 100), (8, 100), 1, (1_000, 500)),
    ),
    "tiny": Scale(
        *(2_000, 500, 300, 100, (100, 300), (2,)),
        *((20,), 20, 20, 0.01, 50, 1, 2),
        *(2_000, (20, 100), (20,), 1, (50, 40)),
    ),
}
